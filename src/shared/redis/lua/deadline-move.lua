-- deadline-move: sets the time of the next check of each agent, or forgets it, if no touch came since it was seen. While the
-- verb that a touch announced may still be on its way, the next check is no later than the end of its grace.
-- Closes: the check of a sweeper overwriting a newer touch of a producer or worker, or one whose verb it did not see yet;
-- a decision that is acted on late undoing that of a later check.
local now = now_ms()
for _, move in ipairs(moves) do
  local standing, grace = redis.call('ZSCORE', deadlines, move.member), redis.call('HGET', hint_grace, move.member)
  if standing and tonumber(standing) == tonumber(move.seen_score) and (grace or '') == move.seen_grace then
    local at = tonumber(move.at)
    if num(grace) > now then
      at = math.min(at or num(grace), num(grace))
    elseif grace then
      redis.call('HDEL', hint_grace, move.member)
    end
    if at then redis.call('ZADD', deadlines, fmt(at), move.member) else redis.call('ZREM', deadlines, move.member) end
  end
end
return answer('moved')
