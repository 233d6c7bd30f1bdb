-- mend: bring what stands around an agent in line with its record. One that ended or is gone leaves no place taken and no
-- log, inbox or life key behind; one that lives takes its place again, and its name where nobody else has it.
-- KEYS record log inbox life steps live registry
-- ARGV uid registry_ttl_ms
-- Returns mended{removed, counted, named} | whole
-- removed: keys and places taken away; counted, named: '1' when given back.
-- Closes: a repair that was decided on an older look taking the keys of an agent that lives.
local record, log, inbox, life, steps = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local live, registry = KEYS[6], KEYS[7]
local uid, registry_ttl_ms = ARGV[1], ARGV[2]

local agent = fields(record, 'status', 'agent_id')
if not agent[1] or agent[1] == 'ended' then
  local removed = redis.call('HDEL', live, uid) + redis.call('DEL', log, inbox, life)
  if not agent[1] then removed = removed + redis.call('DEL', steps) end
  if removed == 0 then return { 'whole' } end
  return { 'mended', fmt(removed), '', '' }
end

local counted = redis.call('HSETNX', live, uid, life) == 1 and '1' or ''
local named = agent[2] and redis.call('HSETNX', registry, agent[2], uid) == 1 and '1' or ''
if counted == '' and named == '' then return { 'whole' } end
redis.call('PEXPIRE', registry, registry_ttl_ms)
return { 'mended', '0', counted, named }
