-- release: the holder hands the agent back, to be claimed not before `delay_ms` from now.
-- The next look is never earlier than it was.
-- KEYS record
-- ARGV epoch delay_ms look_ms running_ms retries
-- Returns released{wake} | stale
-- Closes: a hand-back that waits for its lease to run out; a re-sent release waking twice; a hand-back wiping out the
-- deaths that call for quarantine.
local record = KEYS[1]
local epoch, delay_ms, look_ms, running_ms, retries = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]

local agent = fields(record, 'status', 'epoch', 'wake', 'released_epoch', 'unanswered_since', 'max_age_ms',
  'committed', 'barren_deaths', 'deadline')
if agent[2] ~= epoch then return { 'stale' } end
if agent[1] == 'queued' and agent[4] == epoch then return { 'released', agent[3] } end
if agent[1] ~= 'running' then return { 'stale' } end

local not_before = now_ms() + delay_ms
local deadline = math.max(math.min(not_before + look_ms, num(agent[5]) + num(agent[6])), num(agent[9]))
local wake = fmt(num(agent[3]) + 1)
local deaths = agent[7] == '1' and '0' or fmt(num(agent[8]))
write_even_when_full(record)
redis.call('HSET', record, 'status', 'queued', 'wake', wake, 'released_epoch', epoch, 'not_before', fmt(not_before),
  'deadline', fmt(deadline), 'looks', '0', 'running_ms', running_ms, 'retries', retries,
  'barren_deaths', deaths)
redis.call('HDEL', record, 'lease_until', 'claim_id')
return { 'released', wake }
