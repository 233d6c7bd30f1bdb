-- inspect: what stands in one slot about one agent, at one moment; changes nothing.
-- KEYS record log inbox life steps live registry
-- ARGV uid
-- Returns found{now, version, agent_id, agent_status, deadline, lease_until, since, max_age_ms, wake, worker, barren_deaths,
--   life_ms, log, inbox, counted, named} | gone{now, life_ms, log, inbox, steps, counted}
-- life_ms: as PTTL answers; log, inbox, steps: their lengths; counted: '1' when it takes a place of its parent's quota;
-- named: '1' when its agent_id leads to it.
-- Closes: an agent put together from answers of several moments, found sick though it never was.
local record, log, inbox, life, steps = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local live, registry = KEYS[6], KEYS[7]
local uid = ARGV[1]

local agent = fields(record, 'v', 'agent_id', 'status', 'deadline', 'lease_until', 'unanswered_since', 'max_age_ms',
  'wake', 'worker', 'barren_deaths')
local now, life_ms = fmt(now_ms()), fmt(redis.call('PTTL', life))
local logged, unread = fmt(redis.call('HLEN', log)), fmt(redis.call('LLEN', inbox))
local counted = redis.call('HEXISTS', live, uid) == 1 and '1' or ''
if not agent[3] then
  return { 'gone', now, life_ms, logged, unread, fmt(redis.call('LLEN', steps)), counted }
end
local named = redis.call('HGET', registry, agent[2] or '') == uid and '1' or ''
return { 'found', now, agent[1] or '', agent[2] or '', agent[3], agent[4] or '', agent[5] or '', agent[6] or '',
  agent[7] or '', agent[8] or '', agent[9] or '', agent[10] or '', life_ms, logged, unread, counted, named }
