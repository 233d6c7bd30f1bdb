-- ack: removes a reply from the channel; its full text lives `kept_ms` from now. If the reply ends the agent, the record
-- shrinks to the fields that its parent and a repeated request key still need, for `kept_ms`. With a kept transcript the
-- whole record stays. The request key is deleted; one that the caller named stays at most as long as the record. The
-- transcript of an agent that was destroyed in the middle of a run stays for a minute, at most as long as the record: the
-- run's holder may still ask whether what it bought was committed. The timelines of a parent's newest `kept_timelines`
-- ended agents stay; older ones are deleted, and of their numbers in the history at most 200 with one ack: Redis looks
-- for each of them. The history is bounded without that. A transcript may have tens of thousands of entries: Redis frees them
-- in the background.
-- Closes: two readers both believing they were first; a re-sent ack contradicting itself; an entry that is gone while the
-- record cannot be made smaller; a turn of a destroyed run that is counted once more because its commit cannot be seen.
-- A hash takes half the memory if all its values are this short; with many of them it does not.
local PIECE_BYTES, PIECES_MAX = 64, 100
local NUMBERS_MAX = 200
local HOLDER_MS = 60000

-- Returns the values of `kept_fields` as a JSON list: null for a missing value, no nulls at the end; and whether another
-- process ended a run of the agent. Raises if Lua cannot read the record.
local function kept_json(agent)
  local spec, reply = cjson.decode(agent.spec), agent.reply and cjson.decode(agent.reply) or {}
  if agent.progress then cjson.decode(agent.progress) end
  local values = { summary = agent.summary, model = spec.model, keep_alive = spec.keep_alive and 1 or nil,
    idle_ms = spec.idle_ms, description = spec.description, definition = spec.definition, entry_id = reply.entry_id,
    ending = reply.reply_id and string.match(reply.reply_id, '[^.]*$'), kind = reply.kind ~= 'reply' and reply.kind or nil,
    reply_status = reply.status, stop_reason = reply.stop_reason, message_ids = reply.message_ids }
  for name, limit in pairs(spec.limits) do values[name] = limit end
  local cut_off = reply.kind == 'ended' and values.ending ~= 'end'
  local as_json = { progress = agent.progress, undelivered = reply.undelivered }
  local list = {}
  for name in string.gmatch(kept_fields, '%S+') do
    list[#list + 1] = as_json[name] or (values[name] and cjson.encode(values[name])) or 'null'
  end
  while list[#list] == 'null' do list[#list] = nil end
  return '[' .. table.concat(list, ',') .. ']', cut_off
end

-- Puts `text` into the fields `kept1`, `kept2` … of `fields`; no character is cut in two.
local function keep(fields, text)
  local most = #text > PIECE_BYTES * PIECES_MAX and #text or PIECE_BYTES
  local from, number = 1, 1
  while from <= #text do
    local next = from + most
    for _ = 1, 3 do
      if string.find(text, '^[\128-\191]', next) then next = next - 1 end
    end
    fields['kept' .. number] = string.sub(text, from, next - 1)
    from, number = next, number + 1
  end
end

-- Read first: a key of the wrong type fails here, and the entry stays.
local agent = read(record, 'v', 'end_entry', 'agent_id', 'name', 'ended_reason', 'run', 'wake', 'created_at', 'ended_at', 'spec',
  'progress', 'summary', 'reply', 'transcript_ms', 'promised', 'acked_by')
local is_end = agent.end_entry == entry_id
local transcript_ms, json, is_cut_off = num(agent.transcript_ms), nil, nil
if is_end and transcript_ms == 0 then
  local is_readable, list, cut_off = pcall(kept_json, agent)
  -- A record that cannot be read stays whole.
  json, is_cut_off = is_readable and list, cut_off
end
local asked_by = is_end and redis.call('GET', request)
if is_end then redis.call('LLEN', timelines) end
if redis.call('XDEL', replies, entry_id) == 0 then
  if agent.acked_by == token or redis.call('GET', ack) == token then return answer('first') end
  return answer('already')
end
redis.call('PEXPIRE', text, kept_ms)
if not is_end then
  redis.call('SET', ack, token, 'PX', request_ttl_ms)
  return answer('first')
end

local record_ms = json and kept_ms or math.max(kept_ms, transcript_ms)
if json then
  redis.call('DEL', record)
  if is_cut_off then
    redis.call('PEXPIRE', transcript, math.min(HOLDER_MS, kept_ms))
  else
    redis.call('UNLINK', transcript)
  end
  local stays = { status = 'ended', acked_by = token, v = agent.v, agent_id = agent.agent_id, name = agent.name, run = agent.run,
    wake = agent.wake, ended_reason = agent.ended_reason, created_at = agent.created_at, ended_at = agent.ended_at }
  keep(stays, json)
  write(record, stays)
else
  redis.call('SET', ack, token, 'PX', request_ttl_ms)
  if transcript_ms > 0 then redis.call('PEXPIRE', transcript, transcript_ms) else redis.call('UNLINK', transcript) end
  redis.call('HDEL', record, 'begun', 'breaks', 'end_entry', 'lost_call', 'message_ids', 'running_ms', 'settled_epoch', 'worker')
end
redis.call('PEXPIRE', record, record_ms)
if string.match(asked_by or '', '^%S+') == uid then
  if not agent.promised then
    redis.call('DEL', request)
  elseif redis.call('PTTL', request) > record_ms then
    redis.call('PEXPIRE', request, record_ms)
  end
end
if redis.call('PEXPIRE', timeline, kept_ms) == 1 then
  local numbers = {}
  -- Several at most, so that a lowered setting holds no ack up.
  for _ = 1, math.min(8, redis.call('RPUSH', timelines, timeline) - kept_timelines) do
    local oldest = redis.call('LPOP', timelines)
    local lines = #numbers < NUMBERS_MAX and redis.call('LRANGE', oldest, 0, NUMBERS_MAX - #numbers - 1) or {}
    for _, line in ipairs(lines) do numbers[#numbers + 1] = string.match(line, '^(%d+%-%d+) ') end
    redis.call('DEL', oldest)
  end
  if #numbers > 0 then redis.call('XDEL', history, unpack(numbers)) end
  redis.call('PEXPIRE', timelines, kept_ms)
end
return answer('first')
