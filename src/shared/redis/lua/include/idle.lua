-- Returns the time (epoch ms) at which the life key of an idle agent expires; nil if it has expired.
local function lives_until(now)
  local left = redis.call('PTTL', life)
  return left > 0 and now + left or nil
end
