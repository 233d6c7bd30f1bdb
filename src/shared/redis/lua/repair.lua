-- repair: brings the keys around an agent in line with its record. An agent that ended or is gone loses its quota slot, log,
-- inbox, attachments and life key. A living one gets its quota slot back, and its name if no other agent has it.
-- Closes: a repair that was decided on an older check deleting the keys of a living agent.
local agent = read(record, 'status', 'agent_id')
if not agent.status or agent.status == 'ended' then
  local removed = redis.call('HDEL', live, uid) + redis.call('UNLINK', log, inbox, attachments, life)
  if not agent.status then removed = removed + redis.call('DEL', timeline) end
  if removed == 0 then return answer('whole') end
  return answer('repaired', { removed = removed, counted = false, named = false })
end

local counted = redis.call('HSETNX', live, uid, life) == 1
local named = agent.agent_id ~= nil and redis.call('HSETNX', registry, agent.agent_id, uid) == 1
if not counted and not named then return answer('whole') end
redis.call('PEXPIRE', registry, registry_ttl_ms)
return answer('repaired', { removed = 0, counted = counted, named = named })
