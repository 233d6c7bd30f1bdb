-- Returns when the parent is gone if no process of it comes back, or infinite: a sweeper has noted the end of its lease, and
-- half of the lease has passed since. Every living process renews in that time, also where the clock had jumped.
local function parent_gone_at()
  local lease = read(parent_lease, 'lapsed_at', 'lease_ms')
  local lapsed_at = num(lease.lapsed_at)
  return lapsed_at > 0 and lapsed_at + math.max(check_ms, num(lease.lease_ms) / 2) or math.huge
end
local function is_parent_gone(now) return parent_gone_at() <= now end

-- Returns how the agent reacts to a parent that is gone: 'ends', or 'finishes' its run first; nil if it stays. `agent` has
-- status and on_parent_gone.
local function follows_parent(agent, now)
  if not agent.on_parent_gone or not is_parent_gone(now) then return nil end
  return (agent.status == 'idle' or agent.on_parent_gone == 'destroy') and 'ends' or 'finishes'
end
