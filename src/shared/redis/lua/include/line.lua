-- The lines before a limiter: `resuming`, the runs that have made a call, and behind it `waiting`. Both: run → when it asks.
local LINES = { resuming, waiting }

-- Returns true if a run of the line asks after `since`.
local function has_waiting(line, since) return redis.call('ZCOUNT', line, fmt(since), '+inf') > 0 end

-- Returns when the last run of a line asks; 0 if none waits.
local function end_of(line) return num(redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]) end

-- Frees slots whose lease is over, a hundred at a time. Always a write, and one that never allocates.
local function free_slots(now)
  redis.call('ZREM', holders, '', unpack(redis.call('ZRANGEBYSCORE', holders, '-inf', fmt(now), 'LIMIT', 0, 100)))
end

-- Returns how many runs hold a slot.
local function held_slots(now) return redis.call('ZCOUNT', holders, '(' .. fmt(now), '+inf') end
