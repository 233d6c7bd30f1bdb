-- rewake: after `overdue` answered wake_due. A wake whose job still waits is left alone and looked at later; a lost one
-- gets a new number, and so does that of a run whose lease is over: its job may still be in the hands of the dead holder.
-- KEYS record
-- ARGV expected_wake job_alive look_ms longest_look_ms
-- Returns wake{wake, deadline} | wait{deadline} | not_due
-- Closes: two sweepers waking one agent twice.
local record = KEYS[1]
local expected_wake, job_alive, look_ms, longest_look_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local agent = fields(record, 'status', 'wake', 'looks', 'deadline', 'lease_until')
local now = now_ms()
if agent[2] ~= expected_wake or num(agent[4]) > now then return { 'not_due' } end
if agent[1] ~= 'queued' and agent[1] ~= 'running' then return { 'not_due' } end

if job_alive == '1' and not agent[5] then
  local looks = num(agent[3]) + 1
  local deadline = fmt(now + math.min(look_ms * 2 ^ looks, longest_look_ms))
  redis.call('HSET', record, 'looks', fmt(looks), 'deadline', deadline)
  return { 'wait', deadline }
end
local wake, deadline = fmt(num(agent[2]) + 1), fmt(now + look_ms)
redis.call('HSET', record, 'wake', wake, 'looks', '0', 'deadline', deadline)
redis.call('HDEL', record, 'lease_until')
return { 'wake', wake, deadline }
