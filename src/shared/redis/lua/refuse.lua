-- refuse: tells a parent that a request handed in for it was refused: writes a failed reply of an agent that was never made.
-- Include channel.
-- Closes: one refusal told several times, by two workers or by one whose answer was lost.
if redis.call('EXISTS', request) == 1 then return answer('same') end
local now = now_ms()
trim_replies(now)
tell_parent({ uid = uid, parent_id = parent_id, agent_id = agent_id, name = name, run = '0' }, now, { reply_id = reply_id,
  kind = 'ended', status = 'failed', stop_reason = 'refused', agent_status = 'ended', message_ids = message_id,
  body = progress, summary = summary })
redis.call('SET', request, uid, 'PX', request_ttl_ms)
return answer('refused')
