-- overdue: tells a sweeper what to do about this agent; changes nothing. A record of a newer version is left to newer
-- sweepers: this one checks again later.
-- Include age, idle, orphan.
-- Closes: acting on a hint of the deadline set that the record does not confirm.
local agent = read(record, 'status', 'deadline', 'lease_until', 'unanswered_since', 'max_age_ms', 'wake', 'agent_id', 'v',
  'tools_since', 'needs_tools', 'on_parent_gone', 'finish')
if not agent.status then return answer('unknown') end
if agent.status == 'ended' then return answer('ended') end

local now, deadline = now_ms(), num(agent.deadline)
if num(agent.v) > version then return answer('not_due', { deadline = now + check_ms }) end
local follows = follows_parent(agent, now)
if follows == 'ends' then return answer('parent_gone') end
if follows == 'finishes' and agent.finish ~= '1' then return answer('must_finish', { agent_id = agent.agent_id }) end
if agent.status == 'idle' then
  local idle_end = lives_until(now)
  if idle_end then return answer('not_due', { deadline = idle_end }) end
  return answer('idle_over')
end
if too_old_at(agent) <= now then return answer('max_age_over') end
local waiting_job = { wake = agent.wake, agent_id = agent.agent_id, waited_ms = math.max(0, now - deadline) }
if agent.tools_since and num(agent.tools_since) + tools_ms <= now then
  waiting_job.needs_tools = agent.needs_tools
  return answer('tools_missing', waiting_job)
end
if deadline > now then return answer('not_due', { deadline = deadline }) end
if agent.status == 'waiting' then return answer('answer_due') end
if agent.lease_until then return answer('lease_over', { wake = agent.wake, agent_id = agent.agent_id }) end
-- The record keeps its first deadline: the check of an agent whose job waits writes nothing to it.
return answer('queued', waiting_job)
