-- deadline-due: returns agents that a sweeper must check now; they are due again after `hidden_ms` unless moved or removed.
-- Closes: every sweeper checking the same agents; a dead sweeper taking its catch with it.
local now = now_ms()
local due = redis.call('ZRANGEBYSCORE', deadlines, '-inf', fmt(now), 'LIMIT', '0', limit)
local hidden_until = fmt(now + hidden_ms)
if #due == 0 then return answer('due', { score = hidden_until, members = due }) end
local graces = redis.call('HMGET', hint_grace, unpack(due))
local hidden, members = {}, {}
for i, member in ipairs(due) do
  hidden[2 * i - 1], hidden[2 * i] = hidden_until, member
  members[2 * i - 1], members[2 * i] = member, graces[i] or ''
end
write_even_when_full(deadlines)
redis.call('ZADD', deadlines, unpack(hidden))
return answer('due', { score = hidden_until, members = members })
