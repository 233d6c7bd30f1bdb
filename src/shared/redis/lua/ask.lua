-- ask: the holder's agent has questions to its parent and waits for the answers, held by nobody. The form of release that
-- goes to waiting: marks, channel entries and the new status are one step, so a question is seen only while it is open.
-- KEYS record log replies steps
-- ARGV epoch known answer_ms running_ms progress step doorbell reply_ttl_ms (question_id started text default_answer)…
-- A message's greatest age bounds the waiting, but brings no look forward: only the answer time was announced.
-- known: how many entries the holder knows the log to have; progress: reply body so far; step: one line of the step list;
-- started: the mark of the call, JSON; default_answer: or ''.
-- Returns asked{deadline} | finishing | stale
-- Closes: a question whose agent still runs, or that waits while nobody was asked; a re-sent ask asking twice; a finish
-- that came just before and would find nobody to heed it.
local record, log, replies, steps = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local epoch, known, answer_ms, running_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local progress, step, doorbell, reply_ttl_ms = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local FIRST = 9

local agent = fields(record, 'status', 'epoch', 'asked_epoch', 'deadline', 'finish', 'unanswered_since', 'max_age_ms', 'uid',
  'parent_id', 'agent_id', 'name', 'run')
if agent[2] ~= epoch then return { 'stale' } end
if agent[3] == epoch then return { 'asked', agent[4] } end
if agent[1] ~= 'running' or has_lost(log, known) then return { 'stale' } end
if agent[5] == '1' then return { 'finishing' } end

write_even_when_full(record)
local now = now_ms()
local deadline = fmt(math.min(now + answer_ms, math.max(num(agent[6]) + num(agent[7]), num(agent[4]))))
local questions = {}
for i = FIRST, #ARGV, 4 do
  local question_id, text, default_answer = ARGV[i], ARGV[i + 2], ARGV[i + 3]
  local question = { question_id = question_id, text = text }
  if default_answer ~= '' then question.default_answer = default_answer end
  questions[#questions + 1] = question
  redis.call('HSETNX', log, question_id .. '/started', ARGV[i + 1])
  local reply_id = agent[8] .. '.' .. question_id
  redis.call('XADD', replies, '*', 'v', '1', 'reply_id', reply_id, 'uid', agent[8], 'parent_id', agent[9],
    'agent_id', agent[10], 'name', agent[11], 'run', agent[12], 'kind', 'question', 'agent_status', 'waiting',
    'at', fmt(now), 'question_id', question_id, 'body', text, 'default_answer', default_answer, 'answer_by', deadline)
  redis.call('PUBLISH', doorbell, reply_id)
end
redis.call('PEXPIRE', replies, reply_ttl_ms)
redis.call('RPUSH', steps, step)
redis.call('HSET', record, 'status', 'waiting', 'asked_epoch', epoch, 'questions', cjson.encode(questions),
  'deadline', deadline, 'looks', '0', 'running_ms', running_ms, 'progress', progress, 'committed', '1', 'retries', '0',
  'barren_deaths', '0')
redis.call('HDEL', record, 'lease_until', 'claim_id')
return { 'asked', deadline }
