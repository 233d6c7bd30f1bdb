-- hold: renews a parent's lease for one of its processes: its agents do not follow it for `parent_lease_ms` from now.
-- Closes: a process with a short lease shortening the lease of another process; an end that a sweeper has noted outliving
-- the return of the parent.
local now, stored = now_ms(), read(parent_lease, 'held_until', 'lease_ms')
local held_until, lease_ms = now + parent_lease_ms, parent_lease_ms
if num(stored.held_until) > held_until then held_until, lease_ms = num(stored.held_until), num(stored.lease_ms) end
-- The first write never allocates, so the script also passes when memory is full.
redis.call('HDEL', parent_lease, 'lapsed_at')
write(parent_lease, { held_until = held_until, lease_ms = lease_ms })
redis.call('PEXPIRE', parent_lease, held_until - now + request_ttl_ms)
return answer('held', { at = held_until })
