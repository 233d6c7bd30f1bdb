-- announce: renews the announcement of a worker, for `ms` from now.
-- Closes: a worker that lives counting as gone while Redis has no memory left.
write_even_when_full(worker)
redis.call('SET', worker, announcement, 'PX', fmt(ms))
return answer('announced')
