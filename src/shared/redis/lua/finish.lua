-- finish: ask for a graceful end; the run's next model call is its hand-back call. An agent that waits for an answer is
-- queued: its open questions stay without one.
-- KEYS record
-- ARGV look_ms
-- Returns finishing{run, wake} | idle | ended{reason} | unknown
-- wake: that of a run that is queued, or ''.
-- Closes: a finish that no run is left to heed being reported as heeded; one that waits for an answer first.
local record = KEYS[1]
local look_ms = tonumber(ARGV[1])
local agent = fields(record, 'status', 'run', 'ended_reason', 'wake')
if not agent[1] then return { 'unknown' } end
if agent[1] == 'ended' then return { 'ended', agent[3] } end
if agent[1] == 'idle' then return { 'idle' } end
write_even_when_full(record)
redis.call('HSET', record, 'finish', '1')
if agent[1] == 'running' then return { 'finishing', agent[2], '' } end
if agent[1] == 'queued' then return { 'finishing', agent[2], agent[4] } end

local wake = fmt(num(agent[4]) + 1)
redis.call('HDEL', record, 'questions')
redis.call('HSET', record, 'status', 'queued', 'wake', wake, 'deadline', fmt(now_ms() + look_ms), 'looks', '0')
return { 'finishing', agent[2], wake }
