-- Returns the name of the purchase of `agent` that may be under way, or nil. The field begun is `<name>`, or says that the
-- purchase begins once the log has a number of entries: `<message>.<epoch>@<entries>`, for a summary
-- `<message>-<before>.<epoch>@<entries>`. A message that is in the log is already bought.
local function purchase_under_way(agent)
  local name, message, entries = string.match(agent.begun or '', '^((%d+)[^@]*)@(%d+)$')
  if not name then return given(agent.begun or '') end
  if redis.call('HLEN', log) < num(entries) or redis.call('HEXISTS', log, message) == 1 then return nil end
  return name
end
