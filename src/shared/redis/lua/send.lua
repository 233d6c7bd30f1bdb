-- send: put a message into an agent's inbox; an idle agent becomes queued, also when its life key has just expired.
-- KEYS record inbox life message registry
-- ARGV payload digest message_ttl_ms max_messages max_bytes look_ms max_age_ms registry_ttl_ms
-- Returns queued{run, wake} | delivered{run, status} | same{run, wake, status} | conflict | ended{reason} | inbox_full{messages} | unknown
-- Closes: a message accepted and lost between expiry and settle; one message delivered twice; the name of an agent that
-- is still spoken to running out.
local record, inbox, life, message, registry = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local payload, digest, message_ttl_ms = ARGV[1], ARGV[2], ARGV[3]
local max_messages, max_bytes, look_ms, max_age_ms = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[6], ARGV[7]
local registry_ttl_ms = ARGV[8]

local agent = fields(record, 'status', 'run', 'wake', 'ended_reason', 'unanswered_since')
local status, run, wake = agent[1], num(agent[2]), num(agent[3])
if not status then return { 'unknown' } end

local seen = redis.call('GET', message)
if seen then
  if seen ~= digest then return { 'conflict' } end
  return { 'same', fmt(run), fmt(wake), status }
end
if status == 'ended' then return { 'ended', agent[4] } end

local unread = redis.call('LRANGE', inbox, 0, -1)
local bytes = #payload
for _, waiting in ipairs(unread) do bytes = bytes + #waiting end
if #unread >= max_messages or bytes > max_bytes then return { 'inbox_full', fmt(#unread) } end

local now = now_ms()
redis.call('RPUSH', inbox, payload)
redis.call('SET', message, digest, 'PX', message_ttl_ms)
redis.call('PEXPIRE', registry, registry_ttl_ms)
if #unread == 0 then redis.call('HSET', record, 'inbox_since', fmt(now)) end
if not agent[5] then redis.call('HSET', record, 'unanswered_since', fmt(now), 'max_age_ms', max_age_ms) end
if status ~= 'idle' then return { 'delivered', fmt(run), status } end

run, wake = run + 1, wake + 1
redis.call('SET', life, '1')
redis.call('HDEL', record, 'progress', 'finish')
redis.call('HSET', record, 'status', 'queued', 'run', fmt(run), 'wake', fmt(wake), 'deadline', fmt(now + look_ms),
  'looks', '0', 'running_ms', '0', 'retries', '0', 'barren_deaths', '0')
return { 'queued', fmt(run), fmt(wake) }
