-- Stands in front of every script. Time comes from Redis alone; numbers are written without exponent.
local function fmt(n) return string.format('%.0f', n) end
local function now_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end
local function num(v) return tonumber(v or '0') or 0 end
-- Missing hash fields arrive as false: an absent record has no status.
local function fields(key, ...) return redis.call('HMGET', key, ...) end
-- Whether a log holds fewer entries than its holder knows of: Redis has forgotten some, in a failover, say. What builds on
-- them is refused, so that a log never has a hole; whoever claims the run next does them again.
local function has_lost(log, known) return redis.call('HLEN', log) < num(known) end
-- Out of memory, Redis refuses a script whose first write may allocate. This one never does and changes nothing (a live
-- record has no TTL): runs in progress can still renew, commit and end, while spawns and sends are refused.
local function write_even_when_full(record) redis.call('PERSIST', record) end
