-- The spending of a budget: `t/<slice>` tokens and `c/<slice>` millionths of a USD; a call under way counts with its
-- reservation. A rolling window is kept in slices; a slice older than the window is deleted. Without a window there is one
-- slice. So the hash has at most two fields per slice, regardless of the number of calls under way.
local SLICES = 60

-- Returns the slice of the current time, and the newest slice that is older than the window.
local function slices(window_ms)
  if not window_ms then return 0, -1 end
  local slice = math.floor(now_ms() * SLICES / window_ms)
  return slice, slice - SLICES
end

-- Returns the tokens and millionths of a USD that are spent, and the fields that are too old.
local function spent_of(budget, oldest)
  local spent, stale = { t = 0, c = 0 }, {}
  local all = redis.call('HGETALL', budget)
  for i = 1, #all, 2 do
    local kind, slice = string.match(all[i], '^([tc])/(%d+)$')
    if not kind then -- A field of another version does not count.
    elseif num(slice) <= oldest then stale[#stale + 1] = all[i]
    else spent[kind] = spent[kind] + num(all[i + 1]) end
  end
  return spent.t, spent.c, stale
end
