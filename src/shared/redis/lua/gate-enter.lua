-- gate-enter: may this run call its provider now, and if not, when does it ask again? A healthy gate has no state, and
-- nothing is written for it. A slowed one has places, held as leases; whoever finds none gets an appointment, one behind
-- the other, so that all who wait together ask at a bounded rate and come back one by one.
-- KEYS paused gate holders waiting
-- ARGV run_id under_way place_ms ask_ms no_place_ms spacing_ms quiet_ms
-- under_way: '1' for a call that has begun and keeps its place, else ''; ask_ms: how long a closed gate may keep a run
-- from asking; no_place_ms: the same for a gate whose places are taken; spacing_ms: between two appointments.
-- Returns open{at, place} | wait{wait_ms, reason} | paused
-- Closes: two runs taking the last place; a dead worker keeping its place; a re-sent question taking two places or
-- appointments.
local paused, gate, holders, waiting = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local run_id, under_way, place_ms, ask_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local no_place_ms, spacing_ms, quiet_ms = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

if under_way == '' and redis.call('EXISTS', paused) == 1 then return { 'paused' } end
local now = now_ms()
local state = fields(gate, 'until', 'limit', 'reason')
if not state[1] then return { 'open', fmt(now), '' } end

-- A first write that never allocates: what follows is done also when memory is full.
redis.call('ZREMRANGEBYSCORE', holders, '-inf', fmt(now))
local closed_until, limit = num(state[1]), math.floor(num(state[2]))
local has_place = redis.call('ZCARD', holders) < limit or redis.call('ZSCORE', holders, run_id)
if under_way == '1' or (closed_until <= now and has_place) then
  redis.call('ZADD', holders, fmt(now + place_ms), run_id)
  redis.call('PEXPIRE', holders, fmt(place_ms))
  redis.call('ZREM', waiting, run_id)
  return { 'open', fmt(now), '1' }
end

redis.call('ZREMRANGEBYSCORE', waiting, '-inf', fmt(now - quiet_ms))
local at = num(redis.call('ZSCORE', waiting, run_id))
if at <= now then
  redis.call('ZREM', waiting, run_id)
  local last = redis.call('ZRANGE', waiting, -1, -1, 'WITHSCORES')
  local earliest = closed_until > now and math.min(closed_until, now + ask_ms) or now + no_place_ms
  at = math.max(earliest, num(last[2]) + math.ceil(spacing_ms / limit))
  redis.call('ZADD', waiting, fmt(at), run_id)
end
local stays_ms = math.max(at, closed_until) - now + quiet_ms
redis.call('PEXPIRE', waiting, fmt(stays_ms))
redis.call('PEXPIRE', gate, fmt(stays_ms))
return { 'wait', fmt(at - now), state[3] }
