-- limiter-acquire: tells whether this run may call its provider now, and if not, when it must ask again. A healthy limiter
-- has no state, and nothing is written for it. A slowed one has slots, held as leases; a run that finds none gets an
-- appointment. Appointments are spaced, so that all waiting runs together ask at a bounded rate; limiter-next calls them earlier
-- when there is room. A run that has made a call goes ahead of those that have not, and these come in the order of their line.
-- Include line.
-- Closes: two runs taking the last slot; a dead worker keeping its slot; a re-sent question taking two slots or
-- appointments; newcomers that keep the line waiting; a limiter that is closed for as long as Redis' clock was set back.
if not under_way and redis.call('EXISTS', paused) == 1 then return answer('paused') end
local now = now_ms()
local state = read(limiter, 'until', 'limit', 'reason', 'since')
-- Times of a clock that was set back would keep calls away for as long as it was set back: the next refusal says what holds.
local is_outdated = num(state.since) > now
if is_outdated then redis.call('DEL', limiter, holders, waiting, resuming) end
if not state['until'] or is_outdated then return answer('open', { at = now, slot = false }) end

-- The first write never allocates, so the script also passes when memory is full.
free_slots(now)
local closed_until, limit = num(state['until']), math.floor(num(state.limit))
local line = resumes and resuming or waiting
local at = num(redis.call('ZSCORE', line, run_id))
local overtakes = not resumes and (has_waiting(resuming, now - late_ms) or (at == 0 and has_waiting(waiting, now - late_ms)))
local has_slot = num(redis.call('ZSCORE', holders, run_id)) > now or (held_slots(now) < limit and not overtakes)
if under_way or (closed_until <= now and has_slot) then
  redis.call('ZADD', holders, fmt(now + slot_ms), run_id)
  redis.call('PEXPIRE', holders, fmt(slot_ms))
  for _, each in ipairs(LINES) do redis.call('ZREM', each, run_id) end
  return answer('open', { at = now, slot = true })
end

-- Those that never came back leave a hundred at a time: each question adds at most one.
local gone = redis.call('ZCOUNT', line, '-inf', fmt(now - quiet_ms))
if gone > 0 then redis.call('ZREMRANGEBYRANK', line, 0, math.min(gone, 100) - 1) end
if at <= now then
  redis.call('ZREM', line, run_id)
  local earliest = closed_until > now and math.min(closed_until, now + ask_ms) or now + no_slot_ms
  at = math.max(earliest, end_of(line) + math.ceil(spacing_ms / limit))
  redis.call('ZADD', line, fmt(at), run_id)
end
local stays_ms = math.max(end_of(waiting), end_of(resuming), closed_until) - now + quiet_ms
redis.call('PEXPIRE', line, fmt(stays_ms))
redis.call('PEXPIRE', limiter, fmt(stays_ms))
return answer('wait', { wait_ms = at - now, reason = state.reason })
