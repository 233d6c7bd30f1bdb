-- Returns the id of a stored message, or nil. It parses the message, because another producer may spell the same JSON
-- differently. If Lua cannot parse it (a lone surrogate), it finds the id by its bytes: in a string a quote is always
-- escaped.
local function message_id_of(stored)
  local readable, message = pcall(cjson.decode, stored)
  if readable then
    local id = type(message) == 'table' and message.message_id
    return type(id) == 'string' and id or nil
  end
  local _, before = string.find(stored, '"message_id"%s*:%s*"')
  if not before then return nil end
  local at = before + 1
  while at <= #stored and string.sub(stored, at, at) ~= '"' do
    at = at + (string.sub(stored, at, at) == '\\' and 2 or 1)
  end
  local decoded, id = pcall(cjson.decode, '[' .. string.sub(stored, before, at) .. ']')
  return decoded and id[1] or nil
end
