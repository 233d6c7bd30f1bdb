-- ack: takes a reply out of the channel. Its full text now lives `kept_ms`; so does what is kept of an ended agent, once
-- the entry that says so is acked: what its request key is answered with and what its parent sees of it, no more. Its
-- transcript goes then, unless its profile keeps it.
-- Closes: two readers both believing they were first; a re-sent ack contradicting itself.
if redis.call('XDEL', replies, entry_id) == 0 then
  if redis.call('GET', ack) == token then return answer('first') end
  return answer('already')
end
redis.call('SET', ack, token, 'PX', request_ttl_ms)
redis.call('PEXPIRE', text, kept_ms)
if redis.call('HGET', record, 'end_entry') == entry_id then
  local transcript_ms = num(redis.call('HGET', record, 'transcript_ms'))
  if transcript_ms > 0 then redis.call('PEXPIRE', transcript, transcript_ms) else redis.call('DEL', transcript) end
  redis.call('HDEL', record, 'begun', 'breaks', 'end_entry', 'message_ids', 'running_ms', 'settled_epoch', 'worker')
  redis.call('PEXPIRE', record, math.max(kept_ms, transcript_ms))
  redis.call('PEXPIRE', timeline, kept_ms)
end
return answer('first')
