-- deadline-due: the agents that a sweeper must check now; they come due again after `hidden_ms` unless moved or removed.
-- Closes: every sweeper checking the same agents; a dead sweeper taking its catch with it.
local now = now_ms()
local due = redis.call('ZRANGEBYSCORE', deadlines, '-inf', fmt(now), 'LIMIT', '0', limit)
if #due == 0 then return answer('due', { members = due }) end
local hidden_until = fmt(now + hidden_ms)
local graces = redis.call('HMGET', hint_grace, unpack(due))
local hidden, members = {}, {}
for i, member in ipairs(due) do
  hidden[#hidden + 1] = hidden_until
  hidden[#hidden + 1] = member
  members[#members + 1] = member
  members[#members + 1] = hidden_until
  members[#members + 1] = graces[i] or ''
end
redis.call('ZADD', deadlines, unpack(hidden))
return answer('due', { members = members })
