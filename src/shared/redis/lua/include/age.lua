-- Returns when an unanswered message ends its agent (epoch ms or infinite). `agent` has unanswered_since and max_age_ms.
local function too_old_at(agent)
  local since = num(agent.unanswered_since)
  return since > 0 and since + num(agent.max_age_ms) or math.huge
end
