-- Whether the agent can still get calls, and the answer if it cannot. `agent` has status and ended_reason.
local function is_alive(agent) return agent.status and agent.status ~= 'ended' end
local function refused(agent)
  return agent.status and answer('ended', { reason = agent.ended_reason }) or answer('unknown')
end
