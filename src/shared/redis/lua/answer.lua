-- answer: writes the answer to an open question into the log, once. With the last one the agent is queued again.
-- Include rest, queue.
-- Closes: two answers to one question (parent twice, or parent and default); an agent without a wake after its last answer;
-- a default before the deadline.
local agent = with_kept(read(record, 'status', 'run', 'wake', 'ended_reason', 'deadline', 'questions'), record)
if not agent.status then return answer('unknown') end
if agent.status == 'ended' then return answer('ended', { reason = agent.ended_reason }) end

local key = question_id .. '/result'
local stored = redis.call('HGET', log, key)
if stored == entry then return answer('same', { run = agent.run, wake = agent.wake, agent_status = agent.status }) end
if stored then return answer('answered') end
if agent.status ~= 'waiting' then return answer('unknown_question') end

local now = now_ms()
local open, others = false, {}
for _, question in ipairs(cjson.decode(agent.questions)) do
  if question.question_id == question_id then open = true else others[#others + 1] = question end
end
if not open then return answer('unknown_question') end
if authority == 'sweeper' and num(agent.deadline) > now then return answer('not_due', { deadline = agent.deadline }) end

write_even_when_full(record)
redis.call('HSET', log, key, entry)
if #others > 0 then
  redis.call('HSET', record, 'questions', cjson.encode(others))
  return answer('waiting', { open = #others })
end
local wake, deadline = num(agent.wake) + 1, now + look_ms
redis.call('HDEL', record, 'questions')
queue(record, deadline, { wake = wake })
return answer('queued', { run = agent.run, wake = wake, deadline = deadline })
