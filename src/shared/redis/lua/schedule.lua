-- schedule: writes one schedule of a parent down: a new one while there is room, a change (`known`) while it is there.
-- Closes: two callers that both find room for the last one; a change that brings back what was removed.
local stands = redis.call('HEXISTS', schedules, schedule_id) == 1
if known and not stands then return answer('gone') end
if not stands and redis.call('HLEN', schedules) >= max_schedules then return answer('full') end
redis.call('HSET', schedules, schedule_id, json)
return answer('stored')
