-- spawn: register a new agent, idle, with its life key.
-- KEYS record request registry live life
-- ARGV uid stem name spec tenant parent_id digest request_ttl_ms max_live idle_ms registry_ttl_ms version
-- Returns spawned{agent_id, created_at} | same{uid, agent_id, created_at} | conflict{agent_id} | quota{live, overdue uid…}
-- Closes: two producers admitting an eleventh agent; one request spawning two agents; two names with one slug; a uid in
-- use starting over with epoch 0.
local record, request, registry, live, life = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local uid, stem, name, spec, tenant, parent_id = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local digest, request_ttl_ms, max_live, idle_ms = ARGV[7], ARGV[8], tonumber(ARGV[9]), ARGV[10]
local registry_ttl_ms, version = ARGV[11], ARGV[12]

local seen = fields(request, 'digest', 'uid', 'agent_id', 'created_at')
if seen[1] then
  if seen[1] ~= digest then return { 'conflict', seen[3] } end
  return { 'same', seen[2], seen[3], seen[4] }
end

local taken = redis.call('HGET', record, 'agent_id')
if taken then return { 'conflict', taken } end

local registered = redis.call('HGETALL', live)
if #registered / 2 >= max_live then
  local answer = { 'quota', fmt(#registered / 2) }
  for i = 1, #registered, 2 do
    if redis.call('EXISTS', registered[i + 1]) == 0 then answer[#answer + 1] = registered[i] end
  end
  return answer
end

local given, agent_id = num(redis.call('HGET', registry, '#' .. stem)), nil
repeat
  given = given + 1
  agent_id = given == 1 and stem or stem .. '_' .. fmt(given)
until agent_id ~= 'parent' and redis.call('HEXISTS', registry, agent_id) == 0

local created_at = fmt(now_ms())
redis.call('HSET', registry, agent_id, uid, '#' .. stem, fmt(given))
redis.call('PEXPIRE', registry, registry_ttl_ms)
redis.call('HSET', live, uid, life)
redis.call('SET', life, '1', 'PX', idle_ms)
redis.call('HSET', record,
  'v', version, 'uid', uid, 'tenant', tenant, 'parent_id', parent_id, 'agent_id', agent_id, 'name', name,
  'spec', spec, 'status', 'idle', 'created_at', created_at, 'epoch', '0', 'run', '0', 'wake', '0',
  'inbox_read', '0', 'deadline', fmt(created_at + idle_ms))
redis.call('HSET', request, 'digest', digest, 'uid', uid, 'agent_id', agent_id, 'created_at', created_at)
redis.call('PEXPIRE', request, request_ttl_ms)
return { 'spawned', agent_id, created_at }
