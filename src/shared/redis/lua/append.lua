-- append: commits log entries, each written once, with all that belongs to them in the same step.
-- Include holder, crashes, events, status, channel, message, commit.
-- Closes: the text of a run that another process ends, lost with its log; a message consumed but not logged, also if Redis
-- forgot a message that the holder has read and took another in its place; a turn committed twice with two contents; a
-- zombie's write.
local agent = read(record, 'status', 'epoch', 'finish', 'inbox_read', 'uid', 'parent_id', 'agent_id', 'name', 'run',
  'begun', 'claim_id', 'committed', 'attempts')
if not holds(agent, epoch, log, known) then return answer('stale') end

local word = check_commit(agent, entries)
if word == 'conflict' then return answer('conflict') end
if word == 'stale' then return answer('stale') end
if word == 'same' then
  -- The log has the start mark of a tool call that is made again; the record does not name the model call after it yet, or
  -- still names the one that the claim announced.
  if begun or agent.begun == agent.claim_id then
    write_even_when_full(record)
    write(record, { begun = begun or '' })
  end
  return answer('same', holder_status(agent))
end

write_even_when_full(record)
local now = now_ms()
local fields = { begun = no_purchase and '' or nil }
if advances and (agent.committed ~= '1' or agent.attempts ~= '0') then advance(fields) end
-- A key of the wrong type fails here, before anything is committed.
if interim_id then redis.call('XLEN', replies) end
tell_events(agent, events)
commit(agent, entries, now, fields)
if interim_id then
  tell_parent(agent, now, { reply_id = interim_id, kind = 'message', agent_status = 'running', body = interim })
end
return answer('appended', holder_status(agent))
