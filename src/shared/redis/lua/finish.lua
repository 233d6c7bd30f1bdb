-- finish: ask for a graceful end; the run's next model call is its hand-back call.
-- KEYS record
-- ARGV -
-- Returns finishing{run} | idle | ended{reason} | unknown
-- Closes: a finish that no run is left to heed being reported as heeded.
local record = KEYS[1]
local agent = fields(record, 'status', 'run', 'ended_reason')
if not agent[1] then return { 'unknown' } end
if agent[1] == 'ended' then return { 'ended', agent[3] } end
if agent[1] == 'idle' then return { 'idle' } end
write_even_when_full(record)
redis.call('HSET', record, 'finish', '1')
return { 'finishing', agent[2] }
