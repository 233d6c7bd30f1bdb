-- webhook-report: notes the result of a round of pushes on the webhook with this secret; success clears the problem.
-- Closes: a webhook that was removed meanwhile coming back as a hash without URL that never expires; a webhook that was replaced
-- getting the problem of its predecessor.
if redis.call('HGET', webhook, 'secret') ~= secret then return answer('other') end
if not problem then
  redis.call('HDEL', webhook, 'failures', 'after', 'last_problem')
  return answer('noted')
end
redis.call('HSET', webhook, 'failures', failures, 'after', after, 'last_problem', problem)
if disabled then redis.call('HSET', webhook, 'disabled', '1') end
return answer('noted')
