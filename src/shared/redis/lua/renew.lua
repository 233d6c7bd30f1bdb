-- renew: the holder of the epoch keeps its lease; the answer says what is new for it. The next look is never earlier than
-- it was: a holder that comes back after its lease is looked at when the sweeper that gave it up meant to.
-- KEYS record inbox
-- ARGV epoch lease_ms running_ms
-- Returns ok{inbox, finish} | stale
-- Closes: a zombie keeping an agent; the running time of a crashed worker going uncounted.
local record, inbox = KEYS[1], KEYS[2]
local epoch, lease_ms, running_ms = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local agent = fields(record, 'status', 'epoch', 'finish', 'deadline')
if agent[1] ~= 'running' or agent[2] ~= epoch then return { 'stale' } end
write_even_when_full(record)
local lease_until = now_ms() + lease_ms
redis.call('HSET', record, 'lease_until', fmt(lease_until), 'deadline', fmt(math.max(lease_until, num(agent[4]))),
  'running_ms', running_ms)
return { 'ok', fmt(redis.call('LLEN', inbox)), agent[3] or '' }
