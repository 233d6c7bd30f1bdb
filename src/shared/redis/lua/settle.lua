-- settle: the only way out. Ends a run (its worker, with the epoch) or an agent (parent or sweeper, by authority).
-- KEYS record log inbox life live replies text steps registry usage
-- ARGV authority epoch known uid target ended_reason status stop_reason natural body idle_ms look_ms reply_ttl_ms
--   registry_ttl_ms usage_ttl_ms doorbell hints
-- known: how many entries the worker knows the log to have; text: of the worker's run, kept anew from its end; others do
-- not know the run, and its text lives from its last turn.
-- authority: worker | parent | sweeper; target: idle | ended; natural: '1' when an unread message keeps the run going.
-- Returns settled{reply_id, agent_status, run, wake} | same{ended_reason, agent_status, run, wake} | more{inbox}
--   | not_due{deadline} | stale | unknown
-- Closes: two ends of one agent; a message accepted between the last look at the inbox and the end; idle death after a
-- revival; a run counted twice: what it used is added behind the guards that let only its first settle through.
local record, log, inbox, life, live, replies = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local text, steps, registry, usage = KEYS[7], KEYS[8], KEYS[9], KEYS[10]
local authority, epoch, known, uid, target, ended_reason = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local reply_status, stop_reason, natural, body = ARGV[7], ARGV[8], ARGV[9], ARGV[10]
local idle_ms, look_ms, reply_ttl_ms, registry_ttl_ms = ARGV[11], tonumber(ARGV[12]), ARGV[13], ARGV[14]
local usage_ttl_ms, doorbell, hints = tonumber(ARGV[15]), ARGV[16], ARGV[17]

local agent = fields(record, 'status', 'epoch', 'run', 'wake', 'ended_reason', 'settled_epoch', 'progress',
  'unanswered_since', 'max_age_ms', 'deadline', 'agent_id', 'name', 'parent_id', 'inbox_since')
local status, run, wake = agent[1], num(agent[3]), num(agent[4])
if not status then return { 'unknown' } end
local same = { 'same', agent[5] or '', status, fmt(run), fmt(wake) }
if status == 'ended' then return same end

local now = now_ms()
if authority == 'worker' then
  if agent[2] ~= epoch then return { 'stale' } end
  if agent[6] == epoch then return same end
  if status ~= 'running' or has_lost(log, known) then return { 'stale' } end
  local unread = redis.call('LLEN', inbox)
  if natural == '1' and unread > 0 then return { 'more', fmt(unread) } end
elseif authority == 'sweeper' then
  if stop_reason == 'idle' then
    local left = redis.call('PTTL', life)
    if status ~= 'idle' then return { 'not_due', agent[10] } end
    if left > 0 then return { 'not_due', fmt(now + left) } end
  else
    local since = num(agent[8])
    if since == 0 or since + num(agent[9]) > now then return { 'not_due', agent[10] } end
  end
end

write_even_when_full(record)
local cut = status ~= 'idle'
local kind = 'reply'
local reply_id = uid .. '.' .. fmt(run)
if authority ~= 'worker' then
  kind = 'ended'
  body = agent[7] or ''
  epoch = fmt(num(agent[2]) + 1)
  redis.call('HSET', record, 'epoch', epoch)
  if not cut then reply_id, body = uid .. '.end', '' end
  if status == 'running' then redis.call('PUBLISH', hints, uid) end
end

if cut then
  local day_ms = 86400000
  local day = math.floor(now / day_ms)
  local function add(counter, n) redis.call('HINCRBY', usage, fmt(day) .. '/' .. counter, fmt(n or 0)) end
  if redis.call('HEXISTS', usage, fmt(day) .. '/runs') == 0 then
    for _, field in ipairs(redis.call('HKEYS', usage)) do
      if num(string.match(field, '^%d+')) <= day - usage_ttl_ms / day_ms then redis.call('HDEL', usage, field) end
    end
  end
  local readable, came_to = pcall(cjson.decode, body)
  if not readable then came_to = {} end
  add('runs', 1)
  add('turns', came_to.turns)
  add('cost_micro_usd', math.floor((came_to.cost_usd or 0) * 1000000 + 0.5))
  for counter, n in pairs(came_to.usage or {}) do add(counter, n) end
  redis.call('PEXPIRE', usage, fmt(usage_ttl_ms))
end

local agent_status, unread = target, {}
if target == 'idle' then
  redis.call('HDEL', record, 'unanswered_since', 'lease_until', 'claim_id')
  if redis.call('LLEN', inbox) > 0 then
    agent_status = 'queued'
    redis.call('HDEL', record, 'progress', 'finish')
    redis.call('HSET', record, 'status', 'queued', 'run', fmt(run + 1), 'wake', fmt(wake + 1), 'settled_epoch', epoch,
      'deadline', fmt(now + look_ms), 'looks', '0', 'running_ms', '0', 'retries', '0', 'barren_deaths', '0',
      'unanswered_since', fmt(num(agent[14])))
  else
    redis.call('SET', life, '1', 'PX', idle_ms)
    redis.call('HSET', record, 'status', 'idle', 'deadline', fmt(now + idle_ms), 'settled_epoch', epoch)
    redis.call('HDEL', record, 'finish')
  end
else
  unread = redis.call('LRANGE', inbox, 0, -1)
  redis.call('HSET', record, 'status', 'ended', 'ended_reason', ended_reason, 'ended_at', fmt(now), 'settled_epoch', epoch)
  redis.call('HDEL', live, uid)
  redis.call('DEL', log, inbox, life)
  redis.call('PEXPIRE', record, reply_ttl_ms)
  redis.call('PEXPIRE', steps, reply_ttl_ms)
  redis.call('PEXPIRE', registry, registry_ttl_ms)
end
redis.call('PEXPIRE', text, reply_ttl_ms)

local entry_id = redis.call('XADD', replies, '*', 'v', '1', 'reply_id', reply_id, 'uid', uid, 'parent_id', agent[13],
  'agent_id', agent[11], 'name', agent[12], 'run', fmt(run), 'kind', kind, 'status', reply_status, 'stop_reason', stop_reason,
  'agent_status', agent_status, 'at', fmt(now), 'body', body, 'undelivered', '[' .. table.concat(unread, ',') .. ']')
if agent_status == 'ended' then redis.call('HSET', record, 'end_entry', entry_id) end
redis.call('XTRIM', replies, 'MINID', fmt(now - reply_ttl_ms) .. '-0')
redis.call('PEXPIRE', replies, reply_ttl_ms)
redis.call('PUBLISH', doorbell, reply_id)
if agent_status == 'queued' then return { 'settled', reply_id, agent_status, fmt(run), fmt(wake + 1) } end
return { 'settled', reply_id, agent_status, fmt(run), '0' }
