-- claim: a worker takes a queued agent, or a running one whose lease is over; the epoch fences every earlier holder.
-- A new epoch is greater than the last one by a step that the claim_id decides: a claim that a failover forgot shares its
-- epoch with no later one, and keeps it when it is sent again.
-- A claim that finds the last holder's lease over counts its death: one without a committed step makes the run barren once
-- more. After two such deaths in a row only a caller with nothing else active gets the run; when that one dies too, the run
-- is lost: it is handed out to be settled, and for nothing else.
-- KEYS record
-- ARGV claim_id worker lease_ms version alone
-- alone: '1' when nothing else is active in the caller's process, and nothing will be before this run commits a step.
-- Returns claimed{epoch, running_ms, retries} | lost{epoch, running_ms, retries} | alone{deaths, wake} | held{wait_ms}
--   | nothing{status} | newer{version, wake} | unknown
-- Closes: two workers running one agent, also when Redis forgot one's claim; a re-sent claim taking a second epoch;
-- deaths that committed nothing going uncounted; a death counted by everybody who may not have the run: the first to find
-- it counts it and leaves the agent queued, where no death is found any more and the dead holder's epoch, should it come
-- back, holds nothing.
local record = KEYS[1]
local claim_id, worker, lease_ms, version, alone = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local SUSPECT, LOST = 2, 3

local agent = fields(record, 'status', 'epoch', 'claim_id', 'lease_until', 'not_before', 'v', 'committed', 'barren_deaths',
  'alone', 'wake', 'running_ms', 'retries')
local status, epoch, lease_until, deaths = agent[1], num(agent[2]), num(agent[4]), num(agent[8])
if not status then return { 'unknown' } end
if num(agent[6]) > version then return { 'newer', agent[6], agent[10] or '0' } end

local running_ms, retries = agent[11] or '0', agent[12] or '0'
local function handed_out(as_epoch)
  if deaths >= LOST then return { 'lost', fmt(as_epoch), running_ms, retries } end
  return { 'claimed', fmt(as_epoch), running_ms, retries }
end

local now = now_ms()
if status == 'running' then
  if agent[3] == claim_id then return handed_out(epoch) end
  if lease_until > now then return { 'held', fmt(lease_until - now) } end
  if agent[7] == '1' then deaths = 0 elseif deaths < SUSPECT or agent[9] == '1' then deaths = deaths + 1 end
elseif status == 'queued' then
  local not_before = num(agent[5])
  if not_before > now then return { 'held', fmt(not_before - now) } end
else
  return { 'nothing', status }
end

local deadline = fmt(now + lease_ms)
if deaths >= SUSPECT and deaths < LOST and alone ~= '1' then
  if status == 'running' then
    redis.call('HSET', record, 'status', 'queued', 'barren_deaths', fmt(deaths), 'deadline', deadline, 'looks', '0')
    redis.call('HDEL', record, 'lease_until', 'claim_id')
  end
  return { 'alone', fmt(deaths), agent[10] or '0' }
end
local next_epoch = epoch + 1 + tonumber(string.sub(redis.sha1hex(claim_id), 1, 6), 16)
redis.call('HSET', record, 'status', 'running', 'epoch', fmt(next_epoch), 'claim_id', claim_id, 'worker', worker,
  'lease_until', deadline, 'deadline', deadline, 'committed', '0', 'barren_deaths', fmt(deaths), 'alone', alone, 'looks', '0')
redis.call('HDEL', record, 'not_before')
return handed_out(next_epoch)
