-- When the life key of an idle agent runs out; nil where it has.
local function lives_until(now)
  local left = redis.call('PTTL', life)
  return left > 0 and now + left or nil
end
