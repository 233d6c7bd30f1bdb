-- Returns the text of a stored answer: its text blocks, joined and trimmed. Raises if it is no answer.
local function text_in(json)
  local texts = {}
  for _, block in ipairs(cjson.decode(json).content) do
    if block.type == 'text' then texts[#texts + 1] = block.text end
  end
  return string.match(table.concat(texts), '^%s*(.*%S)')
end

-- Returns the last text of a run if its progress, JSON, names the message of the log that has it; nil if it names none, or
-- if a failover has lost the message. Uses the script's log.
local function text_said(progress)
  local readable, said = pcall(function() return cjson.decode(progress)[PROGRESS.said] end)
  local stored = readable and num(said) > 0 and redis.call('HGET', log, fmt(said))
  local found, text = pcall(text_in, stored)
  return found and text or nil
end

-- Returns a progress, JSON, with `failure`, a sentence as JSON, as its `error`: one of the members by name, which stand last.
local function with_failure(progress, failure)
  local has_names = string.sub(progress, -2) == '}]'
  return string.sub(progress, 1, has_names and -3 or -2) .. (has_names and ',' or ',{') .. '"error":' .. failure .. '}]'
end
