-- fair-rank: moves a new wake from the end of the line to its place in virtual time. One tick is one wake of the next
-- parent. A parent whose tenant has n parents with wakes in the line gets a place every n ticks: tenants have equal shares,
-- and so have the parents of one tenant. A parent without wakes in the line comes next; several such parents of one tenant
-- follow each other, one tick apart. A busy period ends when no wake waits; earlier periods no longer count.
-- Closes: a wake that is ranked twice, or while a worker has it; a line that outgrows the greatest priority (it then
-- continues in the order of arrival).
local PLACE, UNRANKED, PERIOD = 4294967296, 2097151, 4194304
local KEPT_MS = 86400000
local score = num(redis.call('ZSCORE', ranked_wakes, job_id))
if math.floor(score / PLACE) ~= UNRANKED then return answer('gone') end

local first = redis.call('ZRANGE', ranked_wakes, 0, 0, 'WITHSCORES')
local now, period = math.floor(num(first[2]) / PLACE), num(redis.call('GET', fair_period))
if now == UNRANKED then
  now, period = 1, period + 1
  redis.call('SET', fair_period, fmt(period))
end
-- The tenant's set: parent → its next place, and '' → the next place of a parent that is new in the line. Places that are over
-- count no more; they leave a hundred at a time, because a tenant may have had wakes of tens of thousands of parents.
local base = period * PERIOD
local over = redis.call('ZRANGEBYSCORE', fair_tenant, '-inf', fmt(base + now), 'LIMIT', 0, 100)
if #over > 0 then redis.call('ZREM', fair_tenant, unpack(over)) end
local function position_of(parent)
  local at = num(redis.call('ZSCORE', fair_tenant, parent)) - base
  return at > now and at or nil
end
local entry, position = position_of(''), position_of(fair_parent)
local parents = redis.call('ZCOUNT', fair_tenant, '(' .. fmt(base + now), '+inf') - (entry and 1 or 0)
if not position then
  position, parents = entry or now, parents + 1
  redis.call('ZADD', fair_tenant, fmt(base + math.min(position + 1, UNRANKED)), '')
end
position = math.min(position, UNRANKED - 1)
redis.call('ZADD', fair_tenant, fmt(base + math.min(position + parents, UNRANKED)), fair_parent)
redis.call('PEXPIRE', fair_tenant, KEPT_MS)
redis.call('ZADD', ranked_wakes, fmt(position * PLACE + score % PLACE), job_id)
redis.call('HSET', wake_job, 'priority', fmt(position))
return answer('ranked', { position = position })
