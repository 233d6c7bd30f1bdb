-- gate-leave: a call is over. Its place is free; what it met slows, closes or opens the gate for everybody. Only a call
-- that began after the gate was last closed says anything new: fifty calls that are refused together are one refusal.
-- KEYS gate holders waiting gates
-- ARGV name run_id entered_at outcome reason retry_after_ms jitter backoff_ms longest_backoff_ms breaker_ms
--   longest_breaker_ms quiet_ms names_ttl_ms
-- outcome: ok, limited (the provider asks for less), denied (the credential is refused) or neutral; retry_after_ms: how
-- long a limited call was asked to wait, or ''; jitter: a number in [0, 1).
-- Returns left | first | known
-- Closes: many refusals of one moment halving many times; a condition of the pool failing more than the run that found it;
-- a re-sent answer counting twice.
local gate, holders, waiting, gates = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local name, run_id, entered_at, outcome, reason = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]
local retry_after_ms, jitter = ARGV[6], tonumber(ARGV[7])
local backoff_ms, longest_backoff_ms = tonumber(ARGV[8]), tonumber(ARGV[9])
local breaker_ms, longest_breaker_ms = tonumber(ARGV[10]), tonumber(ARGV[11])
local quiet_ms, names_ttl_ms = tonumber(ARGV[12]), ARGV[13]

local had_place = redis.call('ZREM', holders, run_id) == 1
local state = fields(gate, 'state', 'until', 'limit', 'target', 'strikes', 'since', 'found_by')
local now = now_ms()
local since, limit, target = num(state[6]), num(state[3]), num(state[4])
local says_new = not state[1] or entered_at > since

if outcome == 'neutral' then return { 'left' } end
if outcome == 'ok' then
  if not (state[1] and had_place and says_new) then return { 'left' } end
  if state[1] == 'denied' then
    redis.call('DEL', gate, holders, waiting)
    redis.call('SREM', gates, name)
  else
    local more = (target == 0 or limit < target) and 1 or 1 / limit
    redis.call('HSET', gate, 'limit', string.format('%.3f', limit + more), 'strikes', '0')
  end
  return { 'left' }
end

local asked_ms = tonumber(retry_after_ms) or 0
asked_ms = asked_ms + math.min(asked_ms / 10, longest_backoff_ms) * jitter
-- Remembered for a while after it opens; whoever waits then makes that longer.
local function close_until(at)
  redis.call('HSET', gate, 'until', fmt(at))
  redis.call('PEXPIRE', gate, fmt(at - now + quiet_ms))
end

local kind = outcome == 'denied' and 'denied' or 'slowed'
local was_found = state[1] == 'denied'
if not says_new and (was_found or kind == 'slowed') then
  if asked_ms > 0 and kind == state[1] and state[7] ~= run_id then
    close_until(math.max(num(state[2]), now + math.ceil(asked_ms)))
  end
  if was_found and state[7] == run_id then return { 'first' } end
  return { 'known' }
end

local strikes = kind == state[1] and num(state[5]) + 1 or 1
local closed_ms
if kind == 'denied' then
  closed_ms = math.min(breaker_ms * 2 ^ (strikes - 1), longest_breaker_ms)
else
  closed_ms = math.max(asked_ms, math.min(backoff_ms * 2 ^ (strikes - 1), longest_backoff_ms) * (0.5 + jitter / 2))
end
-- A refused probe says that the provider is still away, not how much it takes.
if kind == 'slowed' and limit >= 2 then target = math.max(1, math.floor((redis.call('ZCARD', holders) + 1) / 2)) end
redis.call('HSET', gate, 'state', kind, 'reason', reason, 'limit', '1', 'target', fmt(target),
  'strikes', fmt(strikes), 'since', fmt(now))
if not was_found then redis.call('HSET', gate, 'found_by', run_id) end
close_until(math.max(num(state[2]), now + math.ceil(closed_ms)))
redis.call('SADD', gates, name)
redis.call('PEXPIRE', gates, names_ttl_ms)
if kind == 'denied' and not was_found then return { 'first' } end
return { 'known' }
