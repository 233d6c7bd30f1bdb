-- webhook-end: releases the slot to push for a parent: for good, or until a retry. If another process heard of a reply
-- meanwhile, the next slot is due at once; after a refusal this process takes it, because the retry keeps its time.
-- Closes: a process that gives up the slot of the next one; a reply that came after the last check of the slot.
if redis.call('HGET', webhook_holders, member) ~= token then return answer('lost') end
local is_asked = redis.call('HDEL', webhook_holders, member .. '/again') == 1
redis.call('HDEL', webhook_holders, member, member .. '/retry')
if in_ms then
  local at = fmt(now_ms() + in_ms)
  redis.call('ZADD', webhooks_due, at, member)
  if refused then redis.call('HSET', webhook_holders, member .. '/retry', at) end
  return answer(is_asked and refused and 'again' or 'ended')
end
if is_asked then
  redis.call('ZADD', webhooks_due, fmt(now_ms()), member)
  return answer('again')
end
redis.call('ZREM', webhooks_due, member)
return answer('ended')
