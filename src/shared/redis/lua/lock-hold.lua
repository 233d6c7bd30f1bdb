-- lock-hold: takes a lock for `ms`, or extends it to `ms` from now.
-- Closes: a holder that keeps a lock which passed to another one in between.
local holder = redis.call('GET', lock)
if holder and holder ~= token then return answer('taken') end
redis.call('SET', lock, token, 'PX', fmt(ms))
return answer('held')
