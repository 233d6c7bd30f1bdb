-- Whether the holder of `epoch`, which no other has followed, has done what the field `mark` remembers: its call is sent again.
local function is_done(agent, mark, epoch)
  return num(agent.epoch) == epoch and agent[mark] ~= nil and num(agent[mark]) == epoch
end

-- Whether the holder of `epoch` may write: no worker claimed and no authority ended the agent since, and the log has every
-- entry that the holder knows of. Redis forgets some in a failover; what builds on them is refused, so that a log never has
-- a hole. `agent` has status and epoch.
local function holds(agent, epoch, log, known)
  if agent.status ~= 'running' or num(agent.epoch) ~= epoch then return false end
  return not log or redis.call('HLEN', log) >= known
end
