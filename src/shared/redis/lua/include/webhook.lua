-- Gives `holder` the slot to push for the parent `member` until `until_ms`; another process' request to check is done with
-- it.
local function give_slot(member, holder, until_ms)
  redis.call('ZADD', webhooks_due, fmt(until_ms), member)
  redis.call('HSET', webhook_holders, member, holder)
  redis.call('HDEL', webhook_holders, member .. '/again')
end
