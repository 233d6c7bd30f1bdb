-- requeue: after `overdue` answered wake_due. A wake whose job still waits is left alone and checked later; a lost one gets a
-- new number, and so does that of a run whose lease is over: its job may still be held by the dead worker.
-- Closes: two sweepers waking one agent twice.
local agent = read(record, 'status', 'wake', 'checks', 'deadline', 'lease_until')
local now = now_ms()
if num(agent.wake) ~= expected_wake or num(agent.deadline) > now then return answer('not_due') end
if agent.status ~= 'queued' and agent.status ~= 'running' then return answer('not_due') end

if job_alive and not agent.lease_until then
  local checks = num(agent.checks) + 1
  local deadline = now + math.min(look_ms * 2 ^ checks, longest_look_ms)
  write(record, { checks = checks, deadline = deadline })
  return answer('wait', { deadline = deadline })
end
local wake, deadline = num(agent.wake) + 1, now + look_ms
write(record, { wake = wake, checks = '0', deadline = deadline })
redis.call('HDEL', record, 'lease_until')
return answer('wake', { wake = wake, deadline = deadline })
