-- deadline-due: the agents somebody must look at now; they come due again after `hidden_ms` unless moved or removed.
-- KEYS deadlines touched
-- ARGV limit hidden_ms
-- Returns due{member score touch …}
-- Closes: every sweeper looking at the same agents; a dead sweeper taking its catch with it.
local deadlines, touched = KEYS[1], KEYS[2]
local limit, hidden_ms = ARGV[1], tonumber(ARGV[2])
local now = now_ms()
local answer = { 'due' }
local hidden_until = fmt(now + hidden_ms)
for _, member in ipairs(redis.call('ZRANGEBYSCORE', deadlines, '-inf', fmt(now), 'LIMIT', '0', limit)) do
  redis.call('ZADD', deadlines, hidden_until, member)
  answer[#answer + 1] = member
  answer[#answer + 1] = hidden_until
  answer[#answer + 1] = redis.call('HGET', touched, member) or ''
end
return answer
