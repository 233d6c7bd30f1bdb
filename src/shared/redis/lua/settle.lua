-- settle: the only way out. Ends a run (by its worker, with the epoch) or an agent (by parent or sweeper, with authority).
-- Include live, holder, crashes, age, idle, orphan, queue, events, status, channel, message, commit, text, usage.
-- Every command that may fail comes before the write that ends the run: after a failure the run can be settled again.
-- Closes: two ends of one agent; a message accepted between the last check of the inbox and the end; idle death after a
-- revival; a run counted twice: usage is added after the checks that only the run's first settle passes.
local agent = read(record, 'status', 'epoch', 'run', 'wake', 'ended_reason', 'settled_epoch', 'progress', 'summary',
  'unanswered_since', 'max_age_ms', 'deadline', 'agent_id', 'name', 'parent_id', 'inbox_since', 'inbox_read', 'finish',
  'begun', 'claim_id', 'message_ids', 'tools_since', 'on_parent_gone')
if not agent.status then return answer('unknown') end
agent.uid = uid
local run, wake, now = num(agent.run), num(agent.wake), now_ms()
local same = { ended_reason = agent.ended_reason, agent_status = agent.status, run = run, wake = wake,
  by_other = epoch and agent.settled_epoch and num(agent.settled_epoch) ~= epoch }
if agent.status == 'ended' then return answer('same', same) end
local is_workers = authority == 'worker'

local word = 'same'
if is_workers then
  if is_done(agent, 'settled_epoch', epoch) then return answer('same', same) end
  if not holds(agent, epoch, log, known) then return answer('stale') end
  word = check_commit(agent, entries)
  if word == 'conflict' then return answer('conflict') end
  if word == 'stale' then return answer('stale') end
  local unread = redis.call('LLEN', inbox) - (word == 'new' and consumed_by_commit(agent) or 0)
  if natural and unread > 0 then
    if word == 'new' then
      write_even_when_full(record)
      tell_events(agent, events)
      commit(agent, entries, now, advance({}))
    end
    return answer('more', holder_status(agent))
  end
elseif authority == 'sweeper' and stop_reason == 'idle' then
  if agent.status ~= 'idle' then return answer('not_due', { deadline = agent.deadline }) end
  local deadline = lives_until(now)
  if deadline then return answer('not_due', { deadline = deadline }) end
elseif authority == 'sweeper' and stop_reason == 'tools_missing' then
  -- A worker that has the tools came first.
  if not agent.tools_since then return answer('not_due', { deadline = agent.deadline }) end
elseif authority == 'sweeper' and stop_reason == 'parent_gone' then
  -- Not due if the parent came back, or if a message came to an agent that only has to finish.
  if follows_parent(agent, now) ~= 'ends' then return answer('not_due', { deadline = agent.deadline }) end
elseif authority == 'sweeper' and too_old_at(agent) > now then
  return answer('not_due', { deadline = agent.deadline })
end

-- A key of the wrong type fails here, before anything is written.
redis.call('XLEN', replies)
redis.call('LLEN', timeline)
redis.call('XLEN', history)
redis.call('HLEN', log)
redis.call('LLEN', inbox)
redis.call('HLEN', attachments)
redis.call('HLEN', live)

write_even_when_full(record)
local has_run = agent.status ~= 'idle'
local kind, reply_id = 'reply', uid .. '.' .. fmt(run)
if is_workers then
  local fields = { progress = progress, log_bytes = log_bytes }
  if word == 'new' then
    commit(agent, entries, now, fields)
    agent.message_ids = fields.message_ids or agent.message_ids
    agent.inbox_since = fields.inbox_since or agent.inbox_since
  else
    commit_text(fields)
    write(record, fields)
  end
  summary = summary or agent.summary
else
  kind, progress, summary, epoch = 'ended', agent.progress or progress, agent.summary, num(agent.epoch) + 1
  if failure then
    progress = with_failure(progress, failure)
    write(record, { progress = progress })
  end
  if not has_run then reply_id, progress, summary, agent.message_ids = uid .. '.end', nil, nil, nil end
end
local said = has_run and not summary and text_said(agent.progress) or nil
if has_run then
  local counters = counters_of(progress or '')
  counters.runs = 1
  count_usage(now, counters)
end

local unread = {}
if target == 'ended' then
  for _, stored in ipairs(redis.call('LRANGE', inbox, 0, -1)) do
    local message_id = message_id_of(stored)
    if message_id then unread[#unread + 1] = message_id end
  end
end
local stays_queued = target == 'idle' and redis.call('LLEN', inbox) > 0
local agent_status = stays_queued and 'queued' or target
local ended = '{"type":"ended","turn":0,"status":"' .. status .. '","stop_reason":"' .. stop_reason .. '"}'
tell_events(agent, events and events .. ',' .. ended or ended)
trim_events(now, event_ttl_ms)
redis.call('PEXPIRE', run_text, reply_ttl_ms)
trim_replies(now)
local entry = { reply_id = reply_id, kind = kind, status = status, stop_reason = stop_reason, agent_status = agent_status,
  message_ids = agent.message_ids, undelivered = #unread > 0 and cjson.encode(unread) or nil }
-- The record keeps the other fields of the reply until its next run, so that the reply can be read again after its ack.
local kept = { entry_id = '', at = fmt(now) }
for name, value in pairs(entry) do kept[name] = value end
entry.body, entry.summary = progress or '', summary or said
local entry_id = tell_parent(agent, now, entry)
kept.entry_id = entry_id
if agent_status ~= 'queued' then write(record, { reply = cjson.encode(kept), summary = said }) end

if agent_status == 'ended' then
  if agent.status == 'running' and not is_workers then redis.call('PUBLISH', hints, uid) end
  write(record, { status = 'ended', epoch = epoch, ended_reason = ended_reason, ended_at = now, settled_epoch = epoch,
    end_entry = entry_id })
  redis.call('HDEL', record, 'claim_id', 'lease_until', 'not_before', 'committed', 'crashes_without_progress',
    'isolated_crashes', 'in_doubt', 'isolation', 'attempts', 'released_epoch', 'asked_epoch', 'inbox_since', 'unanswered_since',
    'max_age_ms', 'questions', 'needs_tools', 'tools_since', 'provider_wait', 'provider_wait_since')
  redis.call('HDEL', live, uid)
  if redis.call('HLEN', log) > 0 then
    redis.call('RENAME', log, transcript)
    redis.call('PEXPIRE', transcript, reply_ttl_ms)
  end
  redis.call('DEL', inbox, attachments, life)
  redis.call('PEXPIRE', record, reply_ttl_ms)
  redis.call('PEXPIRE', timeline, reply_ttl_ms)
  redis.call('PEXPIRE', registry, registry_ttl_ms)
elseif agent_status == 'queued' then
  queue_run(record, run + 1, wake + 1, now + check_ms, { settled_epoch = epoch, unanswered_since = num(agent.inbox_since) })
else
  idle_ms = idle_ms or default_idle_ms
  redis.call('SET', life, '1', 'PX', idle_ms)
  redis.call('HDEL', record, 'unanswered_since', 'lease_until', 'claim_id', 'finish')
  write(record, { status = 'idle', deadline = now + idle_ms, settled_epoch = epoch })
end
return answer('settled', { reply_id = reply_id, agent_status = agent_status, run = run, wake = stays_queued and wake + 1 or 0 })
