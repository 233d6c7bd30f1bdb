-- Gives `holder` the slot to push for `member` until `until_ms`; it thus also serves another process' request to check.
local function give_slot(member, holder, until_ms)
  redis.call('ZADD', webhooks_due, fmt(until_ms), member)
  redis.call('HSET', webhook_holders, member, holder)
  redis.call('HDEL', webhook_holders, member .. '/again')
end
