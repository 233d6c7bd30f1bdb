-- webhook-begin: takes the slot to push for a parent. Where another process has it, that one is asked to look once more.
-- Include webhook.
-- Closes: two processes that hear of one reply pushing it both; a reply that comes while a slot ends, and is heard of by the
-- other process alone; a retry that begins before its time.
local now = now_ms()
local at = num(redis.call('ZSCORE', webhooks_due, member))
local holder = redis.call('HGET', webhook_holders, member)
if at > now and holder ~= token then
  if holder then redis.call('HSET', webhook_holders, member .. '/again', '1') end
  return answer('later')
end
give_slot(member, token, now + ms)
return answer('begun')
