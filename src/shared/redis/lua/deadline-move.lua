-- deadline-move: sets the time of the next check, or forgets the agent, if no touch came since it was seen. While the verb
-- that a touch announced may still be on its way, the next check is no later than the end of its grace.
-- Closes: the check of a sweeper overwriting a newer touch of a producer or worker, or one whose verb it did not see yet;
-- a decision that is acted on late undoing that of a later check.
local standing, grace = redis.call('ZSCORE', deadlines, member), redis.call('HGET', hint_grace, member)
if not standing or tonumber(standing) ~= seen_score or (grace or '') ~= seen_grace then return answer('touched') end
if num(grace) > now_ms() then
  at = math.min(at or num(grace), num(grace))
else
  redis.call('HDEL', hint_grace, member)
end
if at then redis.call('ZADD', deadlines, fmt(at), member) else redis.call('ZREM', deadlines, member) end
return answer('moved')
