-- orphans: tells a sweeper what to do about this parent. An expired lease is noted first, and counts as lapsed half of it
-- later: after an outage of Redis or a jump of its clock, parents that could not renew get time to do so.
-- Include orphan.
-- Closes: agents that follow a parent which only could not renew; a parent without agents being checked for ever.
local now, lease = now_ms(), read(parent_lease, 'held_until', 'lapsed_at')
local held_until = num(lease.held_until)
if held_until > now then return answer('held', { at = held_until }) end
local uids = redis.call('HKEYS', live)
if #uids == 0 then return answer('no_agents') end
if is_parent_gone(now) then return answer('gone', { uids = uids, at = now + check_ms }) end
write_even_when_full(parent_lease)
redis.call('HSETNX', parent_lease, 'lapsed_at', fmt(now))
redis.call('PEXPIRE', parent_lease, request_ttl_ms)
return answer('held', { at = parent_gone_at() })
