-- `is_alive`: true if the agent has not ended. `refused`: the answer if it has. `agent` has status and ended_reason.
local function is_alive(agent) return agent.status and agent.status ~= 'ended' end
local function refused(agent)
  return agent.status and answer('ended', { reason = agent.ended_reason }) or answer('unknown')
end
