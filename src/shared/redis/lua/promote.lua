-- promote: ends the delay of a run that waits for its provider, because it may call now. Its wake stays the same.
-- Closes: a delay with another reason that ends too early.
local agent = read(record, 'status', 'provider_wait', 'wake')
if agent.status ~= 'queued' or not agent.provider_wait then return answer('not_waiting') end
redis.call('HDEL', record, 'not_before')
return answer('promoted', { wake = num(agent.wake) })
