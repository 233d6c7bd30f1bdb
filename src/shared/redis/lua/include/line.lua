-- The lines before a limiter: `resuming`, the runs that have made a call, and behind it `waiting`. Both: run → when it asks.
local LINES = { resuming, waiting }
-- A run that is called, or due, and does not come within this time has ended, or finds no free worker.
local LATE_MS = 2000

-- Returns true if a run of the line has still to come.
local function has_waiting(line, now) return redis.call('ZCOUNT', line, fmt(now - LATE_MS), '+inf') > 0 end

-- Returns when the last run of a line asks; 0 if none waits.
local function end_of(line) return num(redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]) end
