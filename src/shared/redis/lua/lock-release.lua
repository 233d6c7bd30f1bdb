-- lock-release: releases a lock if `token` still holds it.
-- Closes: a holder that gives up the lock of the next one.
if redis.call('GET', lock) == token then redis.call('DEL', lock) end
return answer('released')
