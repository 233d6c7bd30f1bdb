-- claim: a worker takes a queued agent, or a running one whose lease is over; the epoch fences every earlier holder.
-- KEYS record
-- ARGV claim_id worker lease_ms version
-- Returns claimed{epoch} | held{wait_ms} | nothing{status} | newer{version} | unknown
-- Closes: two workers running one agent; a re-sent claim taking a second epoch; deaths that committed nothing going uncounted.
local record = KEYS[1]
local claim_id, worker, lease_ms, version = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

local agent = fields(record, 'status', 'epoch', 'claim_id', 'lease_until', 'not_before', 'v', 'committed', 'barren_deaths')
local status, epoch, lease_until = agent[1], num(agent[2]), num(agent[4])
if not status then return { 'unknown' } end
if num(agent[6]) > version then return { 'newer', agent[6] } end

local now = now_ms()
local deaths = num(agent[8])
if status == 'running' then
  if agent[3] == claim_id then return { 'claimed', fmt(epoch) } end
  if lease_until > now then return { 'held', fmt(lease_until - now) } end
  if agent[7] == '1' then deaths = 0 else deaths = deaths + 1 end
elseif status == 'queued' then
  local not_before = num(agent[5])
  if not_before > now then return { 'held', fmt(not_before - now) } end
else
  return { 'nothing', status }
end

redis.call('HSET', record, 'status', 'running', 'epoch', fmt(epoch + 1), 'claim_id', claim_id, 'worker', worker,
  'lease_until', fmt(now + lease_ms), 'deadline', fmt(now + lease_ms), 'committed', '0',
  'barren_deaths', fmt(deaths), 'looks', '0')
redis.call('HDEL', record, 'not_before')
return { 'claimed', fmt(epoch + 1) }
