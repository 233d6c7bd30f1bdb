-- What stays of an agent whose end was acked: its status, and in one field what its parent may still ask for. The field says
-- `<agent_id> <ended_reason> <run> <token of the ack> <JSON>`: the words are for the scripts, the JSON for the parent.

-- Those four words; nil while all of the record stands.
local function words_of_kept(record)
  return string.match(redis.call('HGET', record, 'kept') or '', '^(%S+) (%S+) (%S+) (%S+) ')
end

-- `agent`, of which at least status and run were read, with those words where they are all that stays.
local function with_kept(agent, record)
  if agent.status ~= 'ended' or agent.run then return agent end
  agent.agent_id, agent.ended_reason, agent.run = words_of_kept(record)
  agent.wake = '0'
  return agent
end

-- Whether the agent can still be told anything, and the answer where it can not. `agent` has status and ended_reason.
local function is_alive(agent) return agent.status and agent.status ~= 'ended' end
local function refused(agent)
  return agent.status and answer('ended', { reason = agent.ended_reason }) or answer('unknown')
end
