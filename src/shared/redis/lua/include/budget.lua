-- What has been spent of a budget: `t/<slice>` tokens and `c/<slice>` millionths of a USD, calls under way included at what they
-- reserved. A rolling window is kept in slices; what is older than the window is forgotten with its slice. Without a window there
-- is one slice. So the hash has at most two fields a slice, however many calls are under way.
local SLICES = 60

-- The slice that a call of now belongs to, and the newest that the window has left behind.
local function slices(window_ms)
  if not window_ms then return 0, -1 end
  local slice = math.floor(now_ms() * SLICES / window_ms)
  return slice, slice - SLICES
end

-- Tokens and millionths of a USD that are spent, and the fields that are too old.
local function spent_of(budget, oldest)
  local spent, stale = { t = 0, c = 0 }, {}
  local all = redis.call('HGETALL', budget)
  for i = 1, #all, 2 do
    local kind, slice = string.match(all[i], '^([tc])/(%d+)$')
    if not kind then -- Another version's: it counts for nothing.
    elseif num(slice) <= oldest then stale[#stale + 1] = all[i]
    else spent[kind] = spent[kind] + num(all[i + 1]) end
  end
  return spent.t, spent.c, stale
end
