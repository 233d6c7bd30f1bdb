-- limiter-next: calls the runs that are next in the lines before a slowed limiter, as many as there are free slots, those that
-- have made a call first. Each is due and holds a slot for a moment, in which the caller wakes it, or releases it if it is gone.
-- Include line.
-- Closes: runs that wait for their appointment while the provider takes calls again; two callers giving one slot away twice; a
-- run that does not come holding up the line.
local now = now_ms()
local state = read(limiter, 'until', 'limit', 'since')
if not state['until'] or num(state['until']) > now or num(state.since) > now then return answer('called', { runs = {} }) end
free_slots(now)
local free, runs = math.floor(num(state.limit)) - held_slots(now), {}
for _, line in ipairs(LINES) do
  local count = math.min(free, most) - #runs
  local found = count > 0 and redis.call('ZRANGEBYSCORE', line, '(' .. fmt(now), '+inf', 'LIMIT', 0, count) or {}
  for _, run_id in ipairs(found) do
    redis.call('ZADD', line, fmt(now), run_id)
    redis.call('ZADD', holders, fmt(now + late_ms), run_id)
    runs[#runs + 1] = run_id
  end
end
if #runs > 0 then redis.call('PEXPIRE', holders, fmt(slot_ms)) end
return answer('called', { runs = runs })
