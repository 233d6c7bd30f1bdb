-- deadline-move: set the time of the next look, or forget the agent, if nobody touched it since it was seen. While the
-- verb that a touch announced may still be on its way, the next look is no later than the end of its grace.
-- KEYS deadlines touched
-- ARGV member seen_score seen_touch at
-- at: epoch ms, or '' to forget.
-- Returns moved | touched
-- Closes: the look of a sweeper overwriting a newer touch of a producer or worker, or one whose verb it did not see yet;
-- a decision that is acted on late undoing that of a later look.
local deadlines, touched = KEYS[1], KEYS[2]
local member, seen_score, seen_touch, at = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local standing, look_again = redis.call('ZSCORE', deadlines, member), redis.call('HGET', touched, member)
if not standing or tonumber(standing) ~= seen_score or (look_again or '') ~= seen_touch then return { 'touched' } end
if num(look_again) > now_ms() then
  at = fmt(math.min(tonumber(at) or num(look_again), num(look_again)))
else
  redis.call('HDEL', touched, member)
end
if at == '' then redis.call('ZREM', deadlines, member) else redis.call('ZADD', deadlines, at, member) end
return { 'moved' }
