-- Returns true if the parent is gone: a sweeper noted the end of its lease, and for `check_ms` no process of it came back.
local function is_parent_gone(now)
  local lapsed_at = num(redis.call('HGET', parent_lease, 'lapsed_at'))
  return lapsed_at > 0 and lapsed_at + check_ms <= now
end

-- Returns how the agent reacts to a parent that is gone: 'ends', or 'finishes' its run first; nil if it stays. `agent` has
-- status and on_parent_gone.
local function follows_parent(agent, now)
  if not agent.on_parent_gone or not is_parent_gone(now) then return nil end
  return (agent.status == 'idle' or agent.on_parent_gone == 'destroy') and 'ends' or 'finishes'
end
