-- schedule: stores one schedule of a parent: a new one if there is room, a change (`known`) if the schedule exists.
-- Closes: two callers that both find room for the last one; a change that restores a removed schedule.
local exists = redis.call('HEXISTS', schedules, schedule_id) == 1
if known and not exists then return answer('gone') end
if not exists and redis.call('HLEN', schedules) >= max_schedules then return answer('full') end
redis.call('HSET', schedules, schedule_id, json)
return answer('stored')
