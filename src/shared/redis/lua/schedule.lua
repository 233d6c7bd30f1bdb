-- schedule: stores one schedule of a parent, a new one if there is room; without `json` it removes the schedule. `seen`: only if
-- the stored text is this one.
-- Closes: two callers that both find room for the last one; a change that restores a removed schedule or undoes a later change;
-- the removal of a schedule that has replaced the one its caller has read; a change that is refused for want of memory when
-- the schedule before it has left the queue.
local stored = redis.call('HGET', schedules, schedule_id)
-- Changes nothing: full memory refuses it, before the caller takes the schedule from the queue for a change.
if json and seen == json and stored == json then redis.call('HSET', schedules, schedule_id, json) end
if json and stored == json then return answer('stored') end
if seen and stored and stored ~= seen then return answer('changed') end
if not json then
  redis.call('HDEL', schedules, schedule_id)
  return answer('removed')
end
if seen and not stored then return answer('changed') end
if not stored and redis.call('HLEN', schedules) >= max_schedules then return answer('full') end
redis.call('HSET', schedules, schedule_id, json)
return answer('stored')
