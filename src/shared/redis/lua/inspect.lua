-- inspect: reads the state of one agent from one cluster slot, at one moment; changes nothing.
-- Include age.
-- Closes: an agent put together from answers of several moments, found broken though it never was; a transcript that
-- `resume-page` copies, and that expires unless its agent is spawned, found as the log of an agent that is gone.
local agent = read(record, 'v', 'agent_id', 'status', 'deadline', 'lease_until', 'unanswered_since', 'max_age_ms', 'wake',
  'worker', 'crashes_without_progress', 'breaks')
local around = { now = now_ms(), life_ms = redis.call('PTTL', life), log = redis.call('HLEN', log),
  inbox = redis.call('LLEN', inbox), counted = redis.call('HEXISTS', live, uid) == 1 }
if not agent.status then
  if redis.call('PTTL', log) > 0 then around.log = 0 end
  around.timeline, around.attachments = redis.call('LLEN', timeline), redis.call('HLEN', attachments)
  return answer('gone', around)
end
local agent_id = agent.agent_id or ''
around.version, around.agent_id, around.agent_status = num(agent.v), agent_id, agent.status
around.deadline, around.lease_until, around.wake = num(agent.deadline), num(agent.lease_until), num(agent.wake)
local too_old = too_old_at(agent)
around.too_old_at, around.worker = too_old < math.huge and too_old or 0, agent.worker or ''
around.crashes, around.breaks = num(agent.crashes_without_progress), num(agent.breaks)
around.named = redis.call('HGET', registry, agent_id) == uid
return answer('found', around)
