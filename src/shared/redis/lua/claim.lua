-- claim: a worker takes a queued agent, or a running one whose lease has expired; the epoch fences every earlier holder. The
-- epoch grows by a step derived from the claim_id: a re-sent claim keeps its epoch, and a claim that a failover forgot
-- shares its epoch with no later claim. A claim that finds the last holder's lease expired counts a crash, unless that run
-- had advanced. After two such crashes in a row the run is claimed in isolation only: as the only run of a worker, or in a
-- process of suspects. If it crashes among suspects, it gets a process of its own. After a crash there, the claim hands it
-- out to be settled. If a holder died with no model call under way, it died in a tool or close to one. The run is in doubt:
-- a caller that can isolate runs puts it among suspects at once. The claim that finds the expired lease tells that its holder
-- is gone.
-- Include queue, events, crashes, purchase, age.
-- Closes: two workers running one agent, also when Redis forgot one's claim; a re-sent claim taking a second epoch, or
-- forgetting the call that the last holder began; crashes without progress going uncounted; one crash counted several times:
-- the first claim that finds the expired lease counts it and sets the agent to queued; the old epoch no longer holds it; a call
-- bought for an agent that must end.
-- A log of more entries or bytes is not handed out: a script that reads 32 MiB keeps Redis from others. The holder reads it in pages, and it alone
-- writes to it.
local LONG_ENTRIES, LONG_BYTES = 1000, 1048576
local agent = read(record, 'status', 'epoch', 'claim_id', 'lease_until', 'not_before', 'v', 'committed',
  'crashes_without_progress', 'isolated_crashes', 'isolation', 'wake', 'needs_tools', 'uid', 'agent_id', 'name', 'run', 'begun',
  'tools_since', 'in_doubt', 'lost_call', 'running_ms', 'attempts', 'breaks', 'unanswered_since', 'max_age_ms', 'worker', 'log_bytes',
  'finish')
if not agent.status then return answer('unknown') end
if num(agent.v) > version then return answer('newer', { version = agent.v, wake = num(agent.wake) }) end

local now, crashes, isolated_crashes = now_ms(), num(agent.crashes_without_progress), num(agent.isolated_crashes)
local in_doubt, under_way = agent.in_doubt == '1', purchase_under_way(agent)
local function handed_out(epoch, lost_call, lost_worker)
  local all = { epoch = epoch, run = num(agent.run), running_ms = num(agent.running_ms), attempts = num(agent.attempts),
    breaks = num(agent.breaks), record = redis.call('HGETALL', record), lost_call = lost_call }
  if crashes >= CRASHED then return answer('crashed', all) end
  all.lost_worker = lost_worker
  local is_long = redis.call('HLEN', log) > LONG_ENTRIES or num(agent.log_bytes) > LONG_BYTES
  if not is_long then all.log = redis.call('HGETALL', log) end
  all.messages, all.watched = redis.call('LRANGE', inbox, 0, -1), is_watched()
  return answer('claimed', all)
end

if agent.status == 'running' then
  if agent.claim_id == claim_id then return handed_out(num(agent.epoch), agent.lost_call) end
  local left = num(agent.lease_until) - now
  if left > 0 then return answer('held', { wait_ms = left }) end
  crashes, isolated_crashes = crashes_after(agent, false)
  in_doubt = not under_way
elseif agent.status == 'queued' then
  local left = num(agent.not_before) - now
  if left > 0 then return answer('held', { wait_ms = left, wake = num(agent.wake), due_at = num(agent.not_before) }) end
else
  return answer('nothing', { agent_status = agent.status })
end
-- A sweeper ends it: the hint that came before this claim makes one check it soon.
if too_old_at(agent) <= now then return answer('too_old') end

local changed = isolated_crashes ~= num(agent.isolated_crashes) and isolated_crashes or nil
local lost_worker = agent.status == 'running' and (agent.worker or '') or nil
local function tell_lost_worker()
  if lost_worker then tell_events(agent, '{"type":"worker_lost","turn":0,"worker":' .. cjson.encode(lost_worker) .. '}') end
end
local function leave_queued()
  if agent.status ~= 'running' then return end
  tell_lost_worker()
  queue(record, now + lease_ms, { crashes_without_progress = crashes, isolated_crashes = changed,
    in_doubt = in_doubt and '1' or nil })
end
-- To end a run takes none of its tools. A hook may refuse the reply of one that has said something.
local function is_needed(name)
  return agent.finish ~= '1' or (string.sub(name, 1, 5) == 'hook:' and redis.call('HEXISTS', record, 'progress') == 1)
end
local missing = {}
for name in string.gmatch(agent.needs_tools or '', '%S+') do
  local is_offered = string.find(offered_tools or '', ' ' .. name .. ' ', 1, true)
  if not is_offered and is_needed(name) then missing[#missing + 1] = name end
end
if #missing > 0 and crashes < CRASHED then
  if not agent.tools_since then
    tell_events(agent, '{"type":"waiting_for_tools","turn":0,"tools":' .. cjson.encode(missing) .. '}')
  end
  leave_queued()
  if not agent.tools_since then redis.call('HSET', record, 'tools_since', fmt(now)) end
  return answer('missing_tools', { tools = table.concat(missing, ' '), wake = num(agent.wake) })
end

local deadline = now + lease_ms
local is_isolated = isolation and (isolation ~= 'group' or isolated_crashes == 0)
local is_suspect = crashes < CRASHED and (crashes >= SUSPECT or (can_isolate and in_doubt))
if is_suspect and not is_isolated then
  leave_queued()
  return answer('suspect', { crashes = crashes, isolated_crashes = isolated_crashes, wake = num(agent.wake) })
end
-- A no-op write that Redis refuses when it is full; the writes below would pass, because their first never allocates.
redis.call('HSET', record, 'status', agent.status)
-- A key of the wrong type fails here, and the agent can still be claimed.
redis.call('HLEN', log)
redis.call('LLEN', inbox)
trim_events(now, event_ttl_ms)
tell_lost_worker()
local epoch = num(agent.epoch) + 1 + tonumber(string.sub(redis.sha1hex(claim_id), 1, 6), 16)
redis.call('HDEL', record, 'not_before', 'tools_since', 'in_doubt', 'lost_call')
write(record, { status = 'running', epoch = epoch, claim_id = claim_id, worker = worker, lease_until = deadline,
  deadline = deadline, committed = '0', crashes_without_progress = crashes,
  isolated_crashes = changed, isolation = isolation or '', begun = claim_id,
  lost_call = under_way })
return handed_out(epoch, under_way, lost_worker)
