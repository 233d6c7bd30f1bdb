-- fair-rank: moves a wake that was just added from the end of the line to its place in virtual time. A tick is one wake of the
-- parent that is next; a parent whose tenant has n parents with wakes in the line takes a place every n ticks, so that tenants
-- share alike, and the parents of a tenant. A parent that had none in the line comes next; of several such in one tenant
-- each comes a tick after the other. A busy period ends when no wake waits: what was before it counts no more.
-- Closes: a wake that is ranked twice, or while a worker has it; a line that outgrows what a priority can say (it goes on
-- in the order of arrival).
local PLACE, UNRANKED, PERIOD = 4294967296, 2097151, 4194304
local KEPT_MS = 86400000
local standing = num(redis.call('ZSCORE', ranked_wakes, job_id))
if math.floor(standing / PLACE) ~= UNRANKED then return answer('gone') end

local first = redis.call('ZRANGE', ranked_wakes, 0, 0, 'WITHSCORES')
local now, period = math.floor(num(first[2]) / PLACE), num(redis.call('GET', fair_period))
if now == UNRANKED then
  now, period = 1, period + 1
  redis.call('SET', fair_period, fmt(period))
end
-- Within the tenant's set: parent → its next place, and '' → the next place of a parent that comes new into the line.
local base = period * PERIOD
redis.call('ZREMRANGEBYSCORE', fair_tenant, '-inf', fmt(base + now))
local entry = redis.call('ZSCORE', fair_tenant, '')
local parents = redis.call('ZCARD', fair_tenant) - (entry and 1 or 0)
local place = redis.call('ZSCORE', fair_tenant, fair_parent)
if place then
  place = num(place) - base
else
  place, parents = entry and num(entry) - base or now, parents + 1
  redis.call('ZADD', fair_tenant, fmt(base + math.min(place + 1, UNRANKED)), '')
end
place = math.min(place, UNRANKED - 1)
redis.call('ZADD', fair_tenant, fmt(base + math.min(place + parents, UNRANKED)), fair_parent)
redis.call('PEXPIRE', fair_tenant, KEPT_MS)
redis.call('ZADD', ranked_wakes, fmt(place * PLACE + standing % PLACE), job_id)
redis.call('HSET', wake_job, 'priority', fmt(place))
return answer('ranked', { place = place })
