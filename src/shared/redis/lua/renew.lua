-- renew: the holder of the epoch keeps its lease; the answer says what is new for it. The next check is never earlier than
-- it was: a holder that comes back after its lease is checked when the sweeper that gave it up meant to.
-- Include holder, events, status.
-- Closes: a zombie keeping an agent; the running time of a crashed worker going uncounted.
local agent = read(record, 'status', 'epoch', 'finish', 'deadline')
if not holds(agent, epoch) then return answer('stale') end
write_even_when_full(record)
local lease_until = now_ms() + lease_ms
write(record, { lease_until = lease_until, deadline = math.max(lease_until, num(agent.deadline)), running_ms = running_ms })
return answer('ok', holder_status(agent))
