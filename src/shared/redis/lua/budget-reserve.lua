-- budget-reserve: reserves the estimated cost of a call in a budget, before the call begins. The budget of one agent is kept
-- longer than a living agent can be without a call.
-- Include budget, reservation.
-- Closes: two workers that both find room for the last call; a call of a crashed worker that counts for nothing.
local slice, oldest = slices(window_ms)
local tokens_used, usd_used, stale = spent_of(budget, oldest)
if #stale > 0 then redis.call('HDEL', budget, unpack(stale)) end

if not read_reservation(reservation, budget) then
  tokens_used, usd_used = tokens_used + tokens, usd_used + micro_usd
  if not forced and max_tokens and tokens_used > max_tokens then return answer('refused', { over = 'max_total_tokens' }) end
  if not forced and max_micro_usd and usd_used > max_micro_usd then return answer('refused', { over = 'max_cost' }) end
  write_hash_even_when_full(budget)
  redis.call('HINCRBY', budget, 't/' .. fmt(slice), fmt(tokens))
  redis.call('HINCRBY', budget, 'c/' .. fmt(slice), fmt(micro_usd))
  redis.call('PEXPIRE', budget, of_agent and reply_ttl_ms or registry_ttl_ms)
  local reserved = fmt(tokens) .. ' ' .. fmt(micro_usd) .. ' ' .. fmt(slice)
  redis.call('SET', reservation, reserved, 'PX', reservation_ms)
end
local used = math.max(max_tokens and tokens_used / max_tokens or 0, max_micro_usd and usd_used / max_micro_usd or 0)
return answer('granted', { used_permille = math.min(1000000, math.floor(used * 1000)) })
