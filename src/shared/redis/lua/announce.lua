-- announce: renews the announcement of a worker, for `ms` from now.
-- Closes: a worker that lives counting as gone while Redis has no memory left; a list without the workers that have not yet
-- come back counting as complete.
write_even_when_full(worker)
local is_kept = redis.call('EXISTS', worker) == 1
redis.call('SET', worker, is_kept and announcement or returning, 'PX', fmt(ms))
return answer('announced')
