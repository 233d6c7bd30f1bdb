-- The news for the holder of an agent in each answer: unread messages, whether the parent wants an end, and whether a
-- subscriber listens. Uses the script's inbox, and is_watched of events. `agent` has finish.
local function holder_status(agent)
  return { inbox = redis.call('LLEN', inbox), finish = agent.finish == '1', watched = is_watched() }
end
