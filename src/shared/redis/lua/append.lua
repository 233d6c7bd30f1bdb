-- append: commit entries of the log, each written once, with all that belongs to them in the same step.
-- KEYS record log inbox steps replies text
-- ARGV epoch known running_ms consume_to consume_last progress text_changed whole_text step interim_id interim doorbell
--   reply_ttl_ms (key value)…
-- known: how many entries the holder knows the log to have; consume_to: absolute inbox cursor after this append, or '';
-- consume_last: '"message_id":"…"' of the last message before it, as its JSON has it, for cjson reads no half characters;
-- progress: reply body so far, or '' to keep; whole_text: the text that the progress had to cut, or '' where it cut none,
-- heeded where text_changed is '1'; step: one line of the step list, or '' where the run has not come further (a purchase, a
-- notice, a beginning); interim_id and interim: an interim message for the parent and its text, or ''.
-- Returns appended{inbox, finish} | same{inbox, finish} | conflict{key, stored, …} | stale
-- Closes: the text of a run that somebody else ends, lost with its log; a message consumed but not logged, also where Redis
-- forgot one that the holder has read and took another in its place; a step committed twice with two contents; a zombie's
-- write.
local record, log, inbox, steps, replies, text = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local epoch, known, running_ms, consume_to, consume_last = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local progress, text_changed, whole_text, step = ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local interim_id, interim, doorbell, reply_ttl_ms = ARGV[10], ARGV[11], ARGV[12], ARGV[13]
local FIRST = 14

local agent = fields(record, 'status', 'epoch', 'finish', 'inbox_read', 'uid', 'parent_id', 'agent_id', 'name', 'run')
if agent[1] ~= 'running' or agent[2] ~= epoch or has_lost(log, known) then return { 'stale' } end

local unseen = 0
local conflict = { 'conflict' }
for i = FIRST, #ARGV, 2 do
  local stored = redis.call('HGET', log, ARGV[i])
  if not stored then
    unseen = unseen + 1
  elseif stored ~= ARGV[i + 1] then
    conflict[#conflict + 1] = ARGV[i]
    conflict[#conflict + 1] = stored
  end
end
if #conflict > 1 then return conflict end
if unseen == 0 then return { 'same', fmt(redis.call('LLEN', inbox)), agent[3] or '' } end

local consumed = num(consume_to) - num(agent[4])
if consumed > 0 then
  local last = redis.call('LINDEX', inbox, consumed - 1)
  if not last or not string.find(last, consume_last, 1, true) then return { 'stale' } end
end

write_even_when_full(record)
for i = FIRST, #ARGV, 2 do redis.call('HSET', log, ARGV[i], ARGV[i + 1]) end
if consumed > 0 then
  redis.call('LTRIM', inbox, consumed, -1)
  redis.call('HSET', record, 'inbox_read', consume_to, 'inbox_since', fmt(now_ms()))
end
if progress ~= '' then redis.call('HSET', record, 'progress', progress) end
if text_changed == '1' then
  if whole_text == '' then redis.call('DEL', text) else redis.call('SET', text, whole_text, 'PX', reply_ttl_ms) end
end
if interim_id ~= '' then
  redis.call('XADD', replies, '*', 'v', '1', 'reply_id', interim_id, 'uid', agent[5], 'parent_id', agent[6],
    'agent_id', agent[7], 'name', agent[8], 'run', agent[9], 'kind', 'message', 'agent_status', 'running',
    'at', fmt(now_ms()), 'body', interim)
  redis.call('PEXPIRE', replies, reply_ttl_ms)
  redis.call('PUBLISH', doorbell, interim_id)
end
redis.call('HSET', record, 'running_ms', running_ms)
if step ~= '' then
  redis.call('RPUSH', steps, step)
  redis.call('HSET', record, 'committed', '1', 'retries', '0')
end
return { 'appended', fmt(redis.call('LLEN', inbox)), agent[3] or '' }
