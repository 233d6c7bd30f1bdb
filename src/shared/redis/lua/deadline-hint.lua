-- deadline-hint: a sweeper must check this agent in `in_ms`, or earlier if that stands already. Its parent, if named, was active now.
-- Closes: (1) a sweeper that read the set before this hint moving the deadline later: each hint has a greater mark, and a
-- move must name the mark it read. (2) A sweeper that comes between this hint and its verb: it checks again after `grace_ms`.
local now = now_ms()
local grace = math.max(now + math.min(in_ms, grace_ms), num(redis.call('HGET', hint_grace, member)) + 1)
local at = now + in_ms
local standing = redis.call('ZSCORE', deadlines, member)
if standing then
  write_even_when_full(deadlines)
  at = math.min(at, num(standing))
end
redis.call('HSET', hint_grace, member, fmt(grace))
redis.call('ZADD', deadlines, fmt(at), member)
if parent then
  -- Lists for people: no run stands still because one of them has another type.
  redis.pcall('ZADD', parents, fmt(now), parent)
  redis.pcall('ZADD', tenant_parents, fmt(now), string.match(parent, '/(.+)$'))
end
return answer('hinted', { at = at })
