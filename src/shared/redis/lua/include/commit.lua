-- The commit of a holder's entries, shared by append and settle: first `check_commit`, which writes nothing, then `commit`.
-- Both use the script's own keys and arguments, and `message_id_of`. `agent` has inbox_read, begun and claim_id.

-- Returns the number of unread messages that the commit consumes.
local function consumed_by_commit(agent) return math.max(0, (consume_to or 0) - num(agent.inbox_read)) end

-- Returns 'stale', 'conflict' if the log has other content, 'same', or 'new'.
local function check_commit(agent, entries)
  local unseen, keys = 0, {}
  for i, entry in ipairs(entries) do keys[i] = entry.key end
  local found = #keys > 0 and redis.call('HMGET', log, unpack(keys)) or {}
  for i, entry in ipairs(entries) do
    local stored = found[i]
    if not stored then
      unseen = unseen + 1
    elseif stored ~= entry.value then
      return 'conflict'
    end
  end
  if unseen == 0 then return 'same' end
  local consumed = consumed_by_commit(agent)
  if consumed > 0 then
    -- A key of the wrong type fails here: no message is consumed whose files stay.
    if consume_attached then redis.call('HLEN', attachments) end
    local last = redis.call('LINDEX', inbox, consumed - 1)
    if not last or message_id_of(last) ~= consume_last then return 'stale' end
  end
  return 'new'
end

-- Stores the last text of the run in a field of its own, unless a message in the log has it. If the field had to be cut, the
-- uncut text gets a key of its own.
local function commit_text(fields)
  if not summary and not forgets_summary then return end
  if summary then fields.summary = summary else redis.call('HDEL', record, 'summary') end
  if whole_text then redis.call('SET', run_text, whole_text, 'PX', reply_ttl_ms) else redis.call('DEL', run_text) end
end

-- Returns true if `entries` have the answer of the purchase that the record names as begun.
local function is_answered_by(entries, begun_before)
  local message = string.match(begun_before, '^(%d+)%.')
  for _, entry in ipairs(entries) do
    if entry.key == message then return true end
  end
  return false
end

-- Writes entries, cursor, counters and text, and `fields` into the record.
local function commit(agent, entries, now, fields)
  local flat = {}
  for _, entry in ipairs(entries) do
    flat[#flat + 1] = entry.key
    flat[#flat + 1] = entry.value
  end
  if #flat > 0 then redis.call('HSET', log, unpack(flat)) end
  local consumed = consumed_by_commit(agent)
  if consumed > 0 then
    redis.call('LTRIM', inbox, consumed, -1)
    for name in string.gmatch(consume_attached or '', '%S+') do redis.call('HDEL', attachments, name) end
    fields.inbox_read, fields.inbox_since = consume_to, now
    fields.message_ids = (redis.call('HGET', record, 'message_ids') or '') .. (consume_ids or '')
  end
  fields.progress, fields.log_bytes, fields.begun = progress, log_bytes, begun or fields.begun
  if progress then fields.running_ms = running_ms end
  local before = agent.begun or ''
  -- The call that a claim announces comes before its first commit, or not at all.
  local is_over = before == agent.claim_id or (progress and not is_answered_by(entries, before))
  if not begun and before ~= '' and is_over then fields.begun = '' end
  commit_text(fields)
  write(record, fields)
end
