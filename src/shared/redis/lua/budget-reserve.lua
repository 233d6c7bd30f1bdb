-- budget-reserve: takes what a call may cost out of a budget before the call begins. A rolling window is kept in slices; what
-- is older than the window is forgotten with its slice. Without a window there is one slice.
-- Closes: two workers that both find room for the last call; a call of a crashed worker that counts for nothing.
local SLICES = 60
local now = now_ms()
local slice = window_ms and fmt(math.floor(now * SLICES / window_ms)) or '0'
local oldest = window_ms and tonumber(slice) - SLICES or -1
local tokens_used, usd_used, stale, known = 0, 0, {}, nil
local all = redis.call('HGETALL', budget)
for i = 1, #all, 2 do
  local kind, name = string.match(all[i], '^(%a)/(.*)$')
  local of_slice = kind == 'r' and string.match(all[i + 1], '%S+$') or name
  if num(of_slice) <= oldest then stale[#stale + 1] = all[i]
  elseif kind == 't' then tokens_used = tokens_used + num(all[i + 1])
  elseif kind == 'c' then usd_used = usd_used + num(all[i + 1])
  elseif name == purchase_id then known = true end
end
if #stale > 0 then redis.call('HDEL', budget, unpack(stale, 1, math.min(#stale, 1000))) end

if not known then
  tokens_used, usd_used = tokens_used + tokens, usd_used + micro_usd
  if not forced and max_tokens and tokens_used > max_tokens then return answer('refused', { over = 'max_total_tokens' }) end
  if not forced and max_micro_usd and usd_used > max_micro_usd then return answer('refused', { over = 'max_cost' }) end
  redis.call('HINCRBY', budget, 't/' .. slice, fmt(tokens))
  redis.call('HINCRBY', budget, 'c/' .. slice, fmt(micro_usd))
  redis.call('HSET', budget, 'r/' .. purchase_id, fmt(tokens) .. ' ' .. fmt(micro_usd) .. ' ' .. slice)
  redis.call('PEXPIRE', budget, registry_ttl_ms)
end
local used = math.max(max_tokens and tokens_used / max_tokens or 0, max_micro_usd and usd_used / max_micro_usd or 0)
return answer('granted', { used_permille = math.min(1000000, math.floor(used * 1000)) })
