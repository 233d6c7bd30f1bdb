-- The reservation of one call under way, under a key of its own: `<tokens> <millionths of a USD> <slice>`.

-- Returns its three numbers; nothing if there is no reservation, or if its slice is deleted: then it does not count.
local function read_reservation(reservation, budget)
  local tokens, micro_usd, slice = string.match(redis.call('GET', reservation) or '', '^(%S+) (%S+) (%S+)$')
  if slice and redis.call('HEXISTS', budget, 't/' .. slice) == 1 then return num(tokens), num(micro_usd), slice end
end
