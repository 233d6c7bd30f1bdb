-- deadline-touch: somebody must look at this agent in `in_ms`, or earlier if that stands already.
-- KEYS deadlines
-- ARGV member in_ms
-- Returns touched{at}
-- Closes: a move that was decided on an older look (see deadline-move) burying this one: every touch changes the score.
local deadlines = KEYS[1]
local member, in_ms = ARGV[1], tonumber(ARGV[2])
local at = now_ms() + in_ms
local standing = redis.call('ZSCORE', deadlines, member)
if standing then at = math.min(at, num(standing)) - 1 end
redis.call('ZADD', deadlines, fmt(at), member)
return { 'touched', fmt(at) }
