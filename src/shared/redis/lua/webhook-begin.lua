-- webhook-begin: takes the slot to push for a parent. If another process has it, that process is asked to check once more.
-- While refused entries wait for their retry, the slot is for newer ones, and the time of the retry stays.
-- Include webhook.
-- Closes: two processes that hear of one reply both pushing it; a reply that comes while a slot ends and that only the other
-- process hears of; a retry that begins before its time.
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
