-- renew: the holder of the epoch extends its lease; the answer has its news. The next check is never earlier than before. If
-- a holder comes back after its lease, the check keeps the time that the sweeper set when it requeued the agent.
-- Include holder, events, status.
-- Closes: a zombie keeping an agent; the running time of a crashed worker going uncounted.
local agent = read(record, 'status', 'epoch', 'finish', 'deadline')
if not holds(agent, epoch) then return answer('stale') end
-- Read first: an inbox of the wrong type fails here, and the lease is not extended by a call that fails.
local news = holder_status(agent)
write_even_when_full(record)
local lease_until = now_ms() + lease_ms
write(record, { lease_until = lease_until, deadline = math.max(lease_until, num(agent.deadline)), running_ms = running_ms })
return answer('ok', news)
