-- promote: ends the delay of a run that waits for its provider, because it may call now. Its wake stays the same. `coming`: it
-- asks soon by itself. `gone`: it has ended, or waits for something else.
-- Closes: a delay with another reason that ends too early; a place kept for an agent that has ended.
local agent = read(record, 'status', 'provider_wait', 'wake')
if agent.status ~= 'queued' and agent.status ~= 'running' then return answer('gone') end
if agent.status == 'running' or not agent.provider_wait then return answer('coming') end
redis.call('HDEL', record, 'not_before')
return answer('promoted', { wake = num(agent.wake) })
