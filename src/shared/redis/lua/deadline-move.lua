-- deadline-move: sets the time of each agent's next check, or removes the agent, unless a hint came since the caller read
-- it. While the verb that a hint announced may still be on its way, the next check is no later than the end of its grace.
-- Closes: the check of a sweeper overwriting a newer hint of a producer or worker, or one whose verb it did not see yet; a
-- decision that is acted on late undoing that of a later check.
local now, members = now_ms(), {}
for i, move in ipairs(moves) do members[i] = move.member end
local scores = redis.call('ZMSCORE', deadlines, unpack(members))
local graces = redis.call('HMGET', hint_grace, unpack(members))
local moved, forgotten, over = {}, {}, {}
for i, move in ipairs(moves) do
  local grace = graces[i]
  if scores[i] and tonumber(scores[i]) == tonumber(move.seen_score) and (grace or '') == move.seen_grace then
    local at = given(move.at)
    if num(grace) > now then
      at = fmt(math.min(num(at or grace), num(grace)))
    elseif grace then
      over[#over + 1] = move.member
    end
    if at then
      moved[#moved + 1] = at
      moved[#moved + 1] = move.member
    else
      forgotten[#forgotten + 1] = move.member
    end
  end
end
write_even_when_full(deadlines)
if #moved > 0 then redis.call('ZADD', deadlines, unpack(moved)) end
if #forgotten > 0 then redis.call('ZREM', deadlines, unpack(forgotten)) end
if #over > 0 then redis.call('HDEL', hint_grace, unpack(over)) end
return answer('moved')
