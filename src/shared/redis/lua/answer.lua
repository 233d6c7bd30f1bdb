-- answer: write the answer to an open question into the log, once. With the last one the agent is queued again.
-- KEYS record log
-- ARGV authority question_id entry look_ms
-- authority: parent | sweeper (the default; only at the deadline); entry: the result of the call, JSON.
-- Returns queued{run, wake, deadline} | waiting{open} | same{run, wake, agent_status} | answered | not_due{deadline}
--   | unknown_question | ended{reason} | unknown
-- Closes: two answers to one question, be it the parent's and the default's: the first one stands; an agent that nobody
-- wakes after its last answer; a default that comes before the deadline.
local record, log = KEYS[1], KEYS[2]
local authority, question_id, entry, look_ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

local agent = fields(record, 'status', 'run', 'wake', 'ended_reason', 'deadline', 'questions')
local status, run, wake = agent[1], num(agent[2]), num(agent[3])
if not status then return { 'unknown' } end
if status == 'ended' then return { 'ended', agent[4] } end

local key = question_id .. '/result'
local stored = redis.call('HGET', log, key)
if stored == entry then return { 'same', fmt(run), fmt(wake), status } end
if stored then return { 'answered' } end
if status ~= 'waiting' then return { 'unknown_question' } end

local now = now_ms()
local open, others = false, {}
for _, question in ipairs(cjson.decode(agent[6])) do
  if question.question_id == question_id then open = true else others[#others + 1] = question end
end
if not open then return { 'unknown_question' } end
if authority == 'sweeper' and num(agent[5]) > now then return { 'not_due', agent[5] } end

write_even_when_full(record)
redis.call('HSET', log, key, entry)
if #others > 0 then
  redis.call('HSET', record, 'questions', cjson.encode(others))
  return { 'waiting', fmt(#others) }
end
local deadline = fmt(now + look_ms)
wake = fmt(wake + 1)
redis.call('HDEL', record, 'questions')
redis.call('HSET', record, 'status', 'queued', 'wake', wake, 'deadline', deadline, 'looks', '0')
return { 'queued', fmt(run), wake, deadline }
