-- deadline-hint: makes a sweeper check this agent in `in_ms`, or at its earlier deadline. `parent`, if given, is listed; it is
-- active now if `by_parent`.
-- Closes: (1) a sweeper that read the set before this hint moving the deadline later: each hint has a greater mark, and a
-- move must name the mark it read. (2) A sweeper that comes between this hint and its verb: it checks again after
-- `grace_ms`.
local now = now_ms()
local grace = math.max(now + math.min(in_ms, grace_ms), num(redis.call('HGET', hint_grace, member)) + 1)
local at = now + in_ms
local current = redis.call('ZSCORE', deadlines, member)
if current then
  write_even_when_full(deadlines)
  at = math.min(at, num(current))
end
redis.call('HSET', hint_grace, member, fmt(grace))
redis.call('ZADD', deadlines, fmt(at), member)
-- Adds a parent to an index that people read; an index of the wrong type stops no run. A hint of the runtime only adds a
-- parent that a failover has lost from it. Each new parent also deletes up to ten parents whose last activity is older than
-- all data that is kept of them.
local mode = by_parent and 'GT' or 'NX'
local function list_parent(index, name)
  if redis.pcall('ZADD', index, mode, fmt(now), name) ~= 1 then return end
  local old = redis.call('ZRANGEBYSCORE', index, '-inf', fmt(now - usage_ttl_ms - max_age_ms), 'LIMIT', '0', '10')
  if #old > 0 then redis.call('ZREM', index, unpack(old)) end
end
if parent then
  list_parent(parents, parent)
  list_parent(tenant_parents, string.match(parent, '/(.+)$'))
end
return answer('hinted', { at = at })
