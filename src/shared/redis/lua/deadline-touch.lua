-- deadline-touch: somebody must look at this agent in `in_ms`, or earlier if that stands already.
-- KEYS deadlines touched
-- ARGV member in_ms grace_ms
-- Returns touched{at}
-- Closes: a move that was decided on an older look burying this one: every touch leaves a greater mark than the one
-- before; a look that falls between this touch and the verb it announces putting the next one off: no look before the
-- verb has had `grace_ms` is the last one.
local deadlines, touched = KEYS[1], KEYS[2]
local member, in_ms, grace_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local now = now_ms()
local look_again = math.max(now + math.min(in_ms, grace_ms), num(redis.call('HGET', touched, member)) + 1)
local at = now + in_ms
local standing = redis.call('ZSCORE', deadlines, member)
if standing then at = math.min(at, num(standing)) end
redis.call('HSET', touched, member, fmt(look_again))
redis.call('ZADD', deadlines, fmt(at), member)
return { 'touched', fmt(at) }
