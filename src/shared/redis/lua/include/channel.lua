-- Writes an entry about `agent` (uid, parent_id, agent_id, name, run) into its parent's channel; returns its stream id. The
-- doorbell carries the whole entry as JSON, so a waiting reader needs no read. The other doorbell tells the processes that
-- push about a parent with a webhook.
local function tell_parent(agent, now, entry)
  local flat = { 'v', '1', 'uid', agent.uid, 'parent_id', agent.parent_id, 'agent_id', agent.agent_id, 'name', agent.name,
    'run', agent.run, 'at', fmt(now) }
  for name, value in pairs(entry) do
    flat[#flat + 1] = name
    flat[#flat + 1] = type(value) == 'number' and fmt(value) or value
  end
  local id = redis.call('XADD', replies, '*', unpack(flat))
  redis.call('PEXPIRE', replies, reply_ttl_ms)
  redis.call('PUBLISH', doorbell, cjson.encode({ id, flat }))
  if redis.call('EXISTS', webhook) == 1 then redis.call('PUBLISH', webhook_doorbell, tenant .. '/' .. agent.parent_id) end
  return id
end

-- Deletes the entries of the channel that are too old; called once at the end of a run.
local function trim_replies(now) redis.call('XTRIM', replies, 'MINID', fmt(now - reply_ttl_ms) .. '-0') end
