-- limiter-release: ends a call, or the wait for one, and frees its slot. Its outcome slows, closes or opens the limiter for every
-- worker. Only a call that began after the limiter was last closed has new information: fifty calls that are refused together are
-- one refusal.
-- Include sample, line.
-- Closes: many refusals of one moment halving many times; a condition of the pool failing more than the run that found it; a
-- re-sent answer counting twice.
local had_slot = redis.call('ZREM', holders, run_id) == 1
for _, line in ipairs(LINES) do redis.call('ZREM', line, run_id) end
local state = read(limiter, 'state', 'until', 'limit', 'target', 'consecutive_refusals', 'since', 'found_by', 'recovers')
local now = now_ms()
-- Redis' clock was set back since: see limiter-acquire.
if num(state.since) > now then state = {} end
local since, limit, target = num(state.since), num(state.limit), num(state.target)
local says_new = not state.state or entered_at > since

if outcome == 'neutral' then return answer('left') end
if outcome == 'ok' then
  if not (state.state and had_slot and says_new) then return answer('left') end
  local is_denied = state.state == 'denied'
  if (is_denied or state.recovers) and redis.call('EXISTS', waiting, resuming) == 0 then
    redis.call('DEL', limiter, holders)
    redis.call('SREM', limiters, name)
  else
    -- The runs that wait for the credential come back one by one, as after a limit.
    if is_denied then redis.call('HSET', limiter, 'state', 'slowed', 'recovers', '1') end
    local more = (target == 0 or limit < target) and 1 or 1 / limit
    redis.call('HSET', limiter, 'limit', string.format('%.3f', limit + more), 'consecutive_refusals', '0')
  end
  return answer('left')
end

local asked_ms = retry_after_ms or 0
asked_ms = asked_ms + math.min(asked_ms / 10, longest_backoff_ms) * jitter
-- Kept for `quiet_ms` after the limit ends; each waiting call extends it.
local function close_until(at)
  redis.call('HSET', limiter, 'until', fmt(at))
  redis.call('PEXPIRE', limiter, fmt(at - now + quiet_ms))
end

local kind = outcome == 'denied' and 'denied' or 'slowed'
local was_found = state.state == 'denied'
if not says_new and (was_found or kind == 'slowed') then
  if asked_ms > 0 and kind == state.state and state.found_by ~= run_id then
    close_until(math.max(num(state['until']), now + math.ceil(asked_ms)))
  end
  if was_found and state.found_by == run_id then return answer('first') end
  return answer('known')
end

local refusals = kind == state.state and num(state.consecutive_refusals) + 1 or 1
local closed_ms
if kind == 'denied' then
  closed_ms = math.min(breaker_ms * 2 ^ (refusals - 1), longest_breaker_ms)
else
  closed_ms = math.max(asked_ms, math.min(backoff_ms * 2 ^ (refusals - 1), longest_backoff_ms) * (0.5 + jitter / 2))
end
-- A refused probe shows that the provider still refuses calls, not how many it would take.
if kind == 'slowed' and limit >= 2 then target = math.max(1, math.floor((held_slots(now) + 1) / 2)) end
write(limiter, { state = kind, reason = reason, limit = '1', target = target, consecutive_refusals = refusals, since = now })
redis.call('HDEL', limiter, 'recovers')
if not was_found then redis.call('HSET', limiter, 'found_by', run_id) end
close_until(math.max(num(state['until']), now + math.ceil(closed_ms)))
redis.call('SADD', limiters, name)
redis.call('PEXPIRE', limiters, names_ttl_ms)
-- A few names from a random part of the set leave with each closing if their limiters have expired: more than a closing adds.
local found, random = sample('SSCAN', limiters, run_id .. fmt(now), 4)
for i = 1, math.min(4, #found) do
  local other = found[(random + i) % #found + 1]
  if redis.call('EXISTS', string.sub(limiter, 1, -#name - 1) .. other) == 0 then redis.call('SREM', limiters, other) end
end
if kind == 'denied' and not was_found then return answer('first') end
return answer('known')
