-- send: puts a message into an agent's inbox; an idle agent becomes queued, also if its life key has just expired.
-- Include live, queue.
-- Closes: a message accepted and lost between expiry and settle; one message delivered twice, or two receipts of it; the name
-- expiring of an agent that still gets messages; a message to an agent whose log has no room for it and a turn.
local agent = read(record, 'status', 'run', 'wake', 'ended_reason', 'unanswered_since', 'log_bytes')
if not agent.status then return refused(agent) end

local seen = redis.call('GET', message)
if seen then
  local its_digest, receipt, its_run = string.match(seen, '^(.*) (%S+) (%S+)$')
  if its_digest ~= digest then return answer('conflict') end
  return answer('same', { receipt = receipt, run = its_run, wake = agent.wake, agent_status = agent.status })
end
if not is_alive(agent) then return refused(agent) end

local unread = redis.call('LRANGE', inbox, 0, -1)
local bytes = #payload
for _, waiting in ipairs(unread) do bytes = bytes + #waiting end
-- An empty inbox takes any one message: its stored form may have six times the bytes of its text.
if #unread >= max_messages or bytes > max_bytes and #unread > 0 then return answer('inbox_full', { messages = #unread }) end

local chars = 0
if attached then
  chars = #attached
  for _, name in ipairs(redis.call('HKEYS', attachments)) do chars = chars + redis.call('HSTRLEN', attachments, name) end
  if chars > max_attached then return answer('inbox_full', { messages = #unread }) end
end

local log_bytes = num(agent.log_bytes)
if log_bytes + bytes + chars >= max_log_bytes then return answer('log_full', { log_bytes = log_bytes }) end

local now = now_ms()
if attached then redis.call('HSET', attachments, attached_to, attached) end
redis.call('RPUSH', inbox, payload)
local receipt = agent.status == 'idle' and 'queued' or 'delivered'
local run = num(agent.run) + (receipt == 'queued' and 1 or 0)
redis.call('SET', message, digest .. ' ' .. receipt .. ' ' .. fmt(run), 'PX', request_ttl_ms)
redis.call('PEXPIRE', registry, registry_ttl_ms)
if #unread == 0 then write(record, { inbox_since = now }) end
if not agent.unanswered_since then write(record, { unanswered_since = now, max_age_ms = max_age_ms }) end
if receipt == 'delivered' then return answer('delivered', { run = run, agent_status = agent.status }) end

local wake = num(agent.wake) + 1
redis.call('SET', life, '1')
queue_run(record, run, wake, now + check_ms, {})
return answer('queued', { run = run, wake = wake })
