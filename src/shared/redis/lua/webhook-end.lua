-- webhook-end: gives the slot to push for a parent up: for good, or until a retry. Where another process heard of a reply
-- meanwhile, the next slot is due at once.
-- Closes: a process that gives up the slot of the next one; a reply that came behind the last look of the slot.
if redis.call('HGET', webhook_holders, member) ~= token then return answer('lost') end
local is_asked = redis.call('HDEL', webhook_holders, member .. '/again') == 1
redis.call('HDEL', webhook_holders, member)
if is_asked and not in_ms then
  redis.call('ZADD', webhooks_due, fmt(now_ms()), member)
  return answer('again')
end
if in_ms then
  redis.call('ZADD', webhooks_due, fmt(now_ms() + in_ms), member)
else
  redis.call('ZREM', webhooks_due, member)
end
return answer('ended')
