-- The text of a stored answer: its text blocks, joined and without the blanks around them. Raises where it is no answer.
local function text_in(json)
  local texts = {}
  for _, block in ipairs(cjson.decode(json).content) do
    if block.type == 'text' then texts[#texts + 1] = block.text end
  end
  return string.match(table.concat(texts), '^%s*(.*%S)')
end

-- The last text of a run where its progress, JSON, names the message of the log whose text it is; nil where it names none, and
-- where a failover has lost that. Uses the script's log.
local function text_said(progress)
  local readable, said = pcall(function() return cjson.decode(progress)[7] end)
  local stored = readable and num(said) > 0 and redis.call('HGET', log, fmt(said))
  local found, text = pcall(text_in, stored)
  return found and text or nil
end
