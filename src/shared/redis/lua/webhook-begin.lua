-- webhook-begin: takes the slot to push for a parent. Where another process has it, that one is asked to look once more. Where
-- what its receiver refused waits for its time, the slot is for what has come since, and keeps that time.
-- Include webhook.
-- Closes: two processes that hear of one reply pushing it both; a reply that comes while a slot ends, and is heard of by the
-- other process alone; a retry that begins before its time.
local now = now_ms()
local at = num(redis.call('ZSCORE', webhooks_due, member))
local holder = redis.call('HGET', webhook_holders, member)
local retry_in = num(redis.call('HGET', webhook_holders, member .. '/retry')) - now
if at > now and holder and holder ~= token then
  redis.call('HSET', webhook_holders, member .. '/again', '1')
  return answer('later')
end
if at > now and not holder and retry_in <= 0 then return answer('later') end
give_slot(member, token, now + ms)
return answer('begun', { retry_in_ms = retry_in > 0 and retry_in or nil })
