-- deadline-due: the agents that a sweeper must check now; they come due again after `hidden_ms` unless moved or removed.
-- Closes: every sweeper checking the same agents; a dead sweeper taking its catch with it.
local now = now_ms()
local members = {}
local hidden_until = fmt(now + hidden_ms)
for _, member in ipairs(redis.call('ZRANGEBYSCORE', deadlines, '-inf', fmt(now), 'LIMIT', '0', limit)) do
  redis.call('ZADD', deadlines, hidden_until, member)
  members[#members + 1] = member
  members[#members + 1] = hidden_until
  members[#members + 1] = redis.call('HGET', hint_grace, member) or ''
end
return answer('due', { members = members })
