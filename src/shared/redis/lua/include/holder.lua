-- Returns true if the holder of `epoch`, still the newest, has made the call that `mark` records: this one is re-sent.
local function is_done(agent, mark, epoch)
  return num(agent.epoch) == epoch and agent[mark] ~= nil and num(agent[mark]) == epoch
end

-- Returns true if the holder of `epoch` may write: no worker claimed and no authority ended the agent since, and the log has
-- every entry that the holder knows. Redis forgets some in a failover; a write that builds on them is refused, so a log
-- never has a hole. `agent` has status and epoch.
local function holds(agent, epoch, log, known)
  if agent.status ~= 'running' or num(agent.epoch) ~= epoch then return false end
  return not log or redis.call('HLEN', log) >= known
end
