-- answer: writes the answer to an open question into the log, once. With the last one the agent is queued again.
-- Include live, queue.
-- Closes: two answers to one question (parent twice, or parent and default); an agent without a wake after its last answer;
-- a default before the deadline; an agent that waits for an answer it has; a record that cannot be read failing its parent's call;
-- answers that make a log longer than it may be; a repeated call, whose first one worked, refused as too late.
local agent = read(record, 'status', 'run', 'wake', 'ended_reason', 'deadline', 'questions', 'log_bytes')
local key = question_id .. '/result'
if not is_alive(agent) then
  if agent.status and redis.call('HGET', transcript, key) == entry then
    return answer('same', { run = agent.run, wake = agent.wake, agent_status = agent.status })
  end
  return refused(agent)
end

local open, others = false, {}
-- If the questions cannot be read, none counts as open: a sweeper lets the run continue without answers.
local readable = pcall(function()
  for _, question in ipairs(cjson.decode(agent.status == 'waiting' and agent.questions or '[]')) do
    if question.question_id == question_id then open = true else others[#others + 1] = question end
  end
end)
open = open and readable
local stored = redis.call('HGET', log, key)
-- Stored but still listed as open: an earlier call failed halfway. This one finishes it, and keeps the stored answer.
if stored and not open then
  if stored ~= entry then return answer('answered') end
  return answer('same', { run = agent.run, wake = agent.wake, agent_status = agent.status })
end
if not open then return answer('unknown_question') end

local now = now_ms()
if authority == 'sweeper' and num(agent.deadline) > now then return answer('not_due', { deadline = agent.deadline }) end

local log_bytes = num(agent.log_bytes)
if authority == 'parent' and not stored and log_bytes + #entry >= max_log_bytes then
  return answer('log_full', { log_bytes = log_bytes })
end

write_even_when_full(record)
if not stored then
  redis.call('HSET', log, key, entry)
  log_bytes = log_bytes + #key + #entry + entry_overhead
end
if #others > 0 then
  write(record, { questions = cjson.encode(others), log_bytes = log_bytes })
  if stored and stored ~= entry then return answer('answered') end
  return answer('waiting', { open = #others })
end
local wake, deadline = num(agent.wake) + 1, now + check_ms
queue(record, deadline, { wake = wake, log_bytes = log_bytes })
redis.call('HDEL', record, 'questions')
if stored and stored ~= entry then return answer('answered') end
return answer('queued', { run = agent.run, wake = wake, deadline = deadline })
