-- orphans: what a sweeper that checks this parent has to do. A lease that is over is noted at first, and counts as lapsed
-- `look_ms` later: a Redis that was away says nothing about the parents that wait for it.
-- Include orphan.
-- Closes: agents that follow a parent which only could not renew; a parent without agents being checked for ever.
local now, lease = now_ms(), read(parent_lease, 'held_until', 'lapsed_at')
local held_until = num(lease.held_until)
if held_until > now then return answer('held', { at = held_until }) end
local uids = redis.call('HKEYS', live)
if #uids == 0 then return answer('no_agents') end
if is_parent_gone(now) then return answer('gone', { uids = uids, at = now + look_ms }) end
write_even_when_full(parent_lease)
redis.call('HSETNX', parent_lease, 'lapsed_at', fmt(now))
redis.call('PEXPIRE', parent_lease, request_ttl_ms)
return answer('held', { at = num(redis.call('HGET', parent_lease, 'lapsed_at')) + look_ms })
