-- ask: the agent of the holder asks its parent questions and waits for the answers without a holder. A message's max_age
-- also ends the wait, but brings no check forward: the deadline set only has the answer deadline.
-- Include holder, crashes, age, events, channel, message, commit.
-- Closes: a question whose agent still runs, or an agent that waits while its parent was not asked; a re-sent ask asking
-- twice; a finish that came just before the wait, and would have no effect; a call that its holder announced and did not
-- make, charged by the claim after the answer; a later wait for a provider dated back to one before the question.
local agent = read(record, 'status', 'epoch', 'asked_epoch', 'deadline', 'finish', 'unanswered_since', 'max_age_ms', 'uid',
  'parent_id', 'agent_id', 'name', 'run')
if is_done(agent, 'asked_epoch', epoch) then return answer('asked', { deadline = agent.deadline }) end
if not holds(agent, epoch, log, known) then return answer('stale') end
if agent.finish == '1' then return answer('finishing') end

write_even_when_full(record)
local now = now_ms()
local deadline = math.min(now + answer_ms, math.max(too_old_at(agent), num(agent.deadline)))
local waiting_for = {}
-- A key of the wrong type fails in `holds` (the log), here or at the events: nothing is told, and no call is marked as begun.
redis.call('XLEN', replies)
tell_events(agent, events)
for _, question in ipairs(questions) do
  local default_answer = given(question.default_answer)
  waiting_for[#waiting_for + 1] = { question_id = question.question_id, text = question.text, default_answer = default_answer }
  tell_parent(agent, now, { reply_id = agent.uid .. '.' .. question.question_id, kind = 'question', agent_status = 'waiting',
    question_id = question.question_id, body = question.text, default_answer = default_answer, answer_by = deadline })
  redis.call('HSETNX', log, question.question_id .. '/started', question.started)
end
-- The agent has no lease any more whose expiry would show that the run has advanced: its crashes are cleared here.
local fields = advance({ status = 'waiting', asked_epoch = epoch, questions = cjson.encode(waiting_for), deadline = deadline,
  running_ms = running_ms, progress = progress, log_bytes = log_bytes, crashes_without_progress = '0', begun = '' })
commit_text(fields)
write(record, fields)
redis.call('HDEL', record, 'lease_until', 'claim_id', 'provider_wait_since')
return answer('asked', { deadline = deadline })
