-- requeue: gives a wake whose job is lost a new number. A run whose lease has expired also gets one, because its job may
-- still be held by the dead worker.
-- Closes: two sweepers waking one agent twice.
local agent = read(record, 'status', 'wake', 'deadline')
local now = now_ms()
if num(agent.wake) ~= expected_wake or num(agent.deadline) > now then return answer('not_due') end
if agent.status ~= 'queued' and agent.status ~= 'running' then return answer('not_due') end

local wake = num(agent.wake) + 1
write(record, { wake = wake, deadline = now + check_ms })
redis.call('HDEL', record, 'lease_until')
return answer('wake', { wake = wake })
