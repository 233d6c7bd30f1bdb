-- deadline-move: set the time of the next look, or forget the agent, if nobody touched it since it was seen.
-- KEYS deadlines
-- ARGV member seen_score at (epoch ms, or '' to forget)
-- Returns moved | touched
-- Closes: the look of a sweeper overwriting a newer touch of a producer or worker.
local deadlines = KEYS[1]
local member, seen_score, at = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local standing = redis.call('ZSCORE', deadlines, member)
if not standing or tonumber(standing) ~= seen_score then return { 'touched' } end
if at == '' then redis.call('ZREM', deadlines, member) else redis.call('ZADD', deadlines, at, member) end
return { 'moved' }
