-- limiter-acquire: tells whether this run may call its provider now, and if not, when it must ask again. A healthy limiter
-- has no state, and nothing is written for it. A slowed one has slots, held as leases; a run that finds none gets an
-- appointment. Appointments are spaced, so that all waiting runs together ask at a bounded rate and come back one by one.
-- Closes: two runs taking the last slot; a dead worker keeping its slot; a re-sent question taking two slots or
-- appointments; a limiter that is closed for as long as Redis' clock was set back.
if not under_way and redis.call('EXISTS', paused) == 1 then return answer('paused') end
local now = now_ms()
local state = read(limiter, 'until', 'limit', 'reason', 'since')
-- Times of a clock that was set back would keep calls away for as long as it was set back: the next refusal says what holds.
local is_outdated = num(state.since) > now
if is_outdated then redis.call('DEL', limiter, holders, waiting) end
if not state['until'] or is_outdated then return answer('open', { at = now, slot = false }) end

-- The first write never allocates, so the script also passes when memory is full.
redis.call('ZREMRANGEBYSCORE', holders, '-inf', fmt(now))
local closed_until, limit = num(state['until']), math.floor(num(state.limit))
local has_slot = redis.call('ZCARD', holders) < limit or redis.call('ZSCORE', holders, run_id)
if under_way or (closed_until <= now and has_slot) then
  redis.call('ZADD', holders, fmt(now + slot_ms), run_id)
  redis.call('PEXPIRE', holders, fmt(slot_ms))
  redis.call('ZREM', waiting, run_id)
  return answer('open', { at = now, slot = true })
end

redis.call('ZREMRANGEBYSCORE', waiting, '-inf', fmt(now - quiet_ms))
local at = num(redis.call('ZSCORE', waiting, run_id))
if at <= now then
  redis.call('ZREM', waiting, run_id)
  local last = redis.call('ZRANGE', waiting, -1, -1, 'WITHSCORES')
  local earliest = closed_until > now and math.min(closed_until, now + ask_ms) or now + no_slot_ms
  at = math.max(earliest, num(last[2]) + math.ceil(spacing_ms / limit))
  redis.call('ZADD', waiting, fmt(at), run_id)
end
local stays_ms = math.max(at, closed_until) - now + quiet_ms
redis.call('PEXPIRE', waiting, fmt(stays_ms))
redis.call('PEXPIRE', limiter, fmt(stays_ms))
return answer('wait', { wait_ms = at - now, reason = state.reason })
