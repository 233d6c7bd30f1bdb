-- webhook-report: notes the result of a round of pushes on the webhook with this secret, and how far it came; success clears the
-- problem.
-- Closes: a webhook that was removed meanwhile coming back as a hash without URL that never expires; a webhook that was replaced
-- getting the problem of its predecessor.
if redis.call('HGET', webhook, 'secret') ~= secret then return answer('other') end
if problem then
  redis.call('HSET', webhook, 'failures', failures, 'last_problem', problem)
else
  redis.call('HDEL', webhook, 'failures', 'last_problem')
end
redis.call('HDEL', webhook, 'after', 'newest')
if after then redis.call('HSET', webhook, 'after', after) end
if newest then redis.call('HSET', webhook, 'newest', newest) end
if disabled then redis.call('HSET', webhook, 'disabled', '1') end
return answer('noted')
