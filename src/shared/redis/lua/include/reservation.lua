-- What one call under way has reserved, under a key of its own: `<tokens> <millionths of a USD> <slice>`.

-- Its three numbers; nothing where none was made, or where its slice is forgotten: it counts for nothing then.
local function read_reservation(reservation, budget)
  local tokens, micro_usd, slice = string.match(redis.call('GET', reservation) or '', '^(%S+) (%S+) (%S+)$')
  if slice and redis.call('HEXISTS', budget, 't/' .. slice) == 1 then return num(tokens), num(micro_usd), slice end
end
