-- webhook-due: extends the slots of a process, and takes slots that are due: those of retries and of dead processes.
-- Include webhook.
-- Closes: a process that died taking its slots with it; a process that continues with a slot that passed to another; a retry
-- that begins before its time because the process that pushed newer entries has died.
local now = now_ms()
local lost, taken, resting = {}, {}, {}
for _, each in ipairs(kept) do
  if redis.call('HGET', webhook_holders, each.member) == token then
    redis.call('ZADD', webhooks_due, fmt(now + ms), each.member)
  else
    lost[#lost + 1] = each.member
  end
end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', webhooks_due, '-inf', fmt(now), 'LIMIT', '0', limit)) do
  give_slot(member, token, now + ms)
  taken[#taken + 1] = member
  local retry_in = num(redis.call('HGET', webhook_holders, member .. '/retry')) - now
  if retry_in > 0 then
    resting[#resting + 1] = member
    resting[#resting + 1] = fmt(retry_in)
  end
end
local first = redis.call('ZRANGE', webhooks_due, '0', '0', 'WITHSCORES')[2]
return answer('due', { lost = lost, taken = taken, resting = resting, next_ms = first and math.max(0, tonumber(first) - now) })
