-- The name of the purchase of `agent` that may be under way, nil where none is. Its field begun says `<name>`, or that the purchase
-- begins once the log has so many entries: `<message>.<epoch>@<entries>`, of a summary `<message>-<before>.<epoch>@<entries>`. A message
-- that stands in the log is bought.
local function purchase_under_way(agent)
  local name, message, entries = string.match(agent.begun or '', '^((%d+)[^@]*)@(%d+)$')
  if not name then return given(agent.begun or '') end
  if redis.call('HLEN', log) < num(entries) or redis.call('HEXISTS', log, message) == 1 then return nil end
  return name
end
