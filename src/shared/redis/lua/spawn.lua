-- spawn: registers a new agent with its life key: idle, or with a first message queued for its first run.
-- Include queue, sample.
-- Closes: two producers admitting an eleventh agent; one request spawning two agents; two names with one slug; a uid in use
-- starting over with epoch 0; an agent that is spawned while its first message is lost; an agent made under a profile that
-- is no longer registered; a request key that leads to an agent which Redis has forgotten.
-- The keys of a parent's records differ only in the uid at their end.
local function record_of(its_uid) return string.sub(record, 1, -#uid - 1) .. its_uid end
local seen = redis.call('GET', request)
local its_uid, its_digest, its_agent_id, its_time = string.match(seen or '', '^(%S+) (%S*) (%S+) (%S+)$')
-- A request key is valid only as long as its agent: a caller can do nothing with an agent that Redis has forgotten.
if its_uid and redis.call('EXISTS', record_of(its_uid)) == 0 then seen = nil end
if seen then
  if its_digest ~= digest then return answer('conflict', { agent_id = its_agent_id }) end
  return answer('same', { uid = its_uid, agent_id = its_agent_id, created_at = its_time })
end

local taken = redis.call('HGET', record, 'agent_id')
if taken then return answer('conflict', { agent_id = taken }) end

local inherited = read(profile, 'profile_version', 'content')
local its_version = num(inherited.profile_version)
if its_version ~= (profile_version or 0) then
  return answer('other_profile', { profile_version = its_version, content = inherited.content })
end

if first_run and redis.call('HLEN', resumed) == 0 then return answer('no_transcript') end

local registered = redis.call('HGETALL', live)
if #registered / 2 >= max_live then
  local overdue = {}
  for i = 1, #registered, 2 do
    if redis.call('EXISTS', registered[i + 1]) == 0 then overdue[#overdue + 1] = registered[i] end
  end
  return answer('quota', { overdue = overdue })
end

-- Picks a few names from a random part of the registry; deletes names without a record, and counters whose newest name is
-- gone. One spawn in eight does so, with more names than eight spawns add. Redis reads a small hash whole, so many names
-- cost no more than a few.
local function forget_names(most)
  local found, random = sample('HSCAN', registry, uid, most)
  local first = random % math.max(1, #found / 2)
  for i = 0, math.min(most, #found / 2) - 1 do
    local at = (first + i) % (#found / 2) * 2 + 1
    local name, value = found[at], found[at + 1]
    local counted = string.match(name, '^#(.+)$')
    local is_gone
    if counted then
      is_gone = redis.call('HEXISTS', registry, value == '1' and counted or counted .. '_' .. value) == 0
    else
      is_gone = redis.call('EXISTS', record_of(value)) == 0
    end
    if is_gone then redis.call('HDEL', registry, name) end
  end
end

-- A counter may be gone while its names are still there, so the search for a free number takes growing steps after 16 taken
-- ones. A counter outside 0 to 2^53 (another program wrote it) starts again at 0: the search would never end.
local number, agent_id, attempts = num(redis.call('HGET', registry, '#' .. stem)), nil, 0
if not (number >= 0 and number < 2 ^ 53) then number = 0 end
repeat
  attempts = attempts + 1
  number = number + math.max(1, 2 ^ (attempts - 16))
  agent_id = number == 1 and stem or stem .. '_' .. fmt(number)
until agent_id ~= 'parent' and redis.call('HEXISTS', registry, agent_id) == 0

local now = now_ms()
redis.call('HSET', registry, agent_id, uid, '#' .. stem, fmt(number))
redis.call('PEXPIRE', registry, registry_ttl_ms)
redis.call('HSET', live, uid, life)
write(record, { v = version, uid = uid, tenant = tenant, parent_id = parent_id, agent_id = agent_id, name = name, spec = spec,
  needs_tools = needs_tools, promised = promised and '1' or nil, transcript_ms = transcript_ms, on_parent_gone = on_parent_gone,
  status = 'idle', created_at = now, epoch = '0', run = '0', wake = '0', inbox_read = '0',
  deadline = now + idle_ms })
-- After the writes that Redis refuses when it is full: a deletion before them would let them pass.
if string.find(uid, '^sa%-[01]') then forget_names(24) end
-- Without a first message the request key promises no reply, only that the same call spawns no second agent.
local remembered_ms = promised and message and request_ttl_ms + max_age_ms + reply_ttl_ms or request_ttl_ms
if attached then redis.call('HSET', attachments, attached_to, attached) end
redis.call('SET', request, uid .. ' ' .. digest .. ' ' .. agent_id .. ' ' .. fmt(now), 'PX', remembered_ms)
if not message then
  redis.call('SET', life, '1', 'PX', idle_ms)
  return answer('spawned', { agent_id = agent_id, created_at = now })
end
redis.call('SET', life, '1')
redis.call('RPUSH', inbox, message)
if first_run then
  -- `resume-page` has copied a long transcript. What is missing is copied here, so that no agent begins without it.
  if redis.call('HLEN', log) < redis.call('HLEN', resumed) then redis.call('COPY', resumed, log, 'REPLACE') end
  redis.call('PERSIST', log)
end
queue_run(record, first_run or 1, 1, now + check_ms, { log_bytes = log_bytes, inbox_since = now,
  unanswered_since = now, max_age_ms = max_age_ms })
return answer('spawned', { agent_id = agent_id, created_at = now })
