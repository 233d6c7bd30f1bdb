-- overdue: what somebody who looks at this agent has to do; changes nothing. A record of a newer version is the business of
-- newer sweepers: this one looks again later.
-- KEYS record life
-- ARGV version look_ms
-- Returns not_due{deadline} | idle_over | max_age_over | answer_due | wake_due{wake, looks, agent_id} | ended | unknown
-- Closes: acting on a hint of the deadline set that the record does not bear out.
local record, life = KEYS[1], KEYS[2]
local version, look_ms = tonumber(ARGV[1]), tonumber(ARGV[2])

local agent = fields(record, 'status', 'deadline', 'lease_until', 'unanswered_since', 'max_age_ms', 'wake', 'looks', 'agent_id', 'v')
local status, deadline, since = agent[1], num(agent[2]), num(agent[4])
if not status then return { 'unknown' } end
if status == 'ended' then return { 'ended' } end

local now = now_ms()
if num(agent[9]) > version then return { 'not_due', fmt(now + look_ms) } end
if status == 'idle' then
  local left = redis.call('PTTL', life)
  if left > 0 then return { 'not_due', fmt(now + left) } end
  return { 'idle_over' }
end
if since > 0 and since + num(agent[5]) <= now then return { 'max_age_over' } end
if status == 'running' then deadline = math.max(deadline, num(agent[3])) end
if deadline > now then return { 'not_due', fmt(deadline) } end
if status == 'waiting' then return { 'answer_due' } end
return { 'wake_due', agent[6], agent[7] or '0', agent[8] }
