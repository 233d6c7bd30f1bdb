-- Writes one line of events into the agent's timeline, `<number> <run> <events>`, and its number into the parent's history.
-- Publishes it while a subscriber listens, with the number before it: a reader without that number has missed a line.
-- `agent` has uid, agent_id, name and run; timeline, history, watching and events_channel are the script's.
local watched
local function is_watched()
  if watched == nil then watched = redis.call('EXISTS', watching) == 1 end
  return watched
end
local function tell_events(agent, events)
  if not events then return end
  local newest = is_watched() and redis.call('XREVRANGE', history, '+', '-', 'COUNT', '1')[1]
  local number = redis.call('XADD', history, '*', 'u', agent.uid)
  local told = redis.pcall('RPUSH', timeline, number .. ' ' .. agent.run .. ' ' .. events)
  if type(told) == 'table' then
    redis.call('XDEL', history, number)
    error(told.err)
  end
  if is_watched() then
    redis.call('PUBLISH', events_channel, '{"v":1,"agent_id":' .. cjson.encode(agent.agent_id) .. ',"name":'
      .. cjson.encode(agent.name) .. ',"n":"' .. number .. '","p":"' .. (newest and newest[1] or '0')
      .. '","r":' .. agent.run .. ',"e":[' .. events .. ']}')
  end
end

-- Trims the history and the timeline to their limits; called at the beginning and the end of a run.
local HISTORY_MAX, TIMELINE_MAX = 10000, 2000
local function trim_events(now, event_ttl_ms)
  redis.call('XTRIM', history, 'MAXLEN', '~', HISTORY_MAX)
  redis.call('XTRIM', history, 'MINID', '~', fmt(now - event_ttl_ms) .. '-0')
  redis.call('LTRIM', timeline, -TIMELINE_MAX, -1)
  redis.call('PEXPIRE', history, event_ttl_ms)
end
