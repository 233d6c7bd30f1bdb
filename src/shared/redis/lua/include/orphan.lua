-- Whether the parent is gone: a sweeper noted the end of its lease, and `look_ms` later no process of it has come back.
local function is_parent_gone(now)
  local lapsed_at = num(redis.call('HGET', parent_lease, 'lapsed_at'))
  return lapsed_at > 0 and lapsed_at + look_ms <= now
end

-- What the agent does because its parent is gone: 'ends', or 'finishes' its run first; nil where it stays. `agent` has status and
-- on_parent_gone.
local function follows_parent(agent, now)
  if not agent.on_parent_gone or not is_parent_gone(now) then return nil end
  return (agent.status == 'idle' or agent.on_parent_gone == 'destroy') and 'ends' or 'finishes'
end
