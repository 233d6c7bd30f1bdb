-- What stays of an agent whose end was acked: its status, and in one field what its parent may still ask for. The field says
-- `<agent_id> <ended_reason> <run> <token of the ack> <JSON>`; `readKept` in agent.ts reads the list that the JSON is.

-- Those four words; nil while all of the record stands.
local function words_of_kept(record)
  return string.match(redis.call('HGET', record, 'kept') or '', '^(%S+) (%S+) (%S+) (%S+) ')
end

-- `agent`, of which at least status and run were read, with those words where they are all that stays.
local function with_kept(agent, record)
  if agent.status ~= 'ended' or agent.run then return agent end
  agent.agent_id, agent.ended_reason, agent.run = words_of_kept(record)
  agent.wake = '0'
  return agent
end

-- Whether the agent can still be told anything, and the answer where it can not. `agent` has status and ended_reason.
local function is_alive(agent) return agent.status and agent.status ~= 'ended' end
local function refused(agent)
  return agent.status and answer('ended', { reason = agent.ended_reason }) or answer('unknown')
end

-- The JSON; nil for a record that Lua cannot read, which then stays as it is.
local function kept_json(agent)
  local readable, spec = pcall(cjson.decode, agent.spec)
  if not readable then return nil end
  local reply = agent.reply and cjson.decode(agent.reply) or {}
  local function text(value) return value and cjson.encode(value) or 'null' end
  local limits = spec.limits
  local most = {}
  for i, name in ipairs({ 'max_turns', 'max_tokens', 'max_duration_ms', 'max_total_tokens', 'max_cost_usd' }) do
    most[i] = text(limits[name])
  end
  return '[' .. table.concat({ agent.v, agent.created_at, agent.ended_at, text(agent.name), text(spec.model),
    table.concat(most, ','), text(spec.keep_alive and 1 or 0), text(spec.idle_ms), text(spec.description),
    text(spec.definition), agent.progress or 'null', text(agent.summary), text(reply.entry_id),
    text(reply.reply_id and string.match(reply.reply_id, '[^.]*$')), text(reply.kind),
    text(reply.status), text(reply.stop_reason), text(reply.message_ids), reply.undelivered or 'null' }, ',') .. ']'
end
