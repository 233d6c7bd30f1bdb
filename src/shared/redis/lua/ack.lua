-- ack: take a reply out of the channel. Its full text now lives `kept_ms`; so does what is kept of an ended agent, once
-- the entry that says so is acked.
-- KEYS replies ack record text steps
-- ARGV entry_id token ack_ttl_ms kept_ms
-- Returns first | already
-- Closes: two readers both believing they were first; a re-sent ack contradicting itself.
local replies, ack, record, text, steps = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local entry_id, token, ack_ttl_ms, kept_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if redis.call('XDEL', replies, entry_id) == 0 then
  if redis.call('GET', ack) == token then return { 'first' } end
  return { 'already' }
end
redis.call('SET', ack, token, 'PX', ack_ttl_ms)
redis.call('PEXPIRE', text, kept_ms)
if redis.call('HGET', record, 'end_entry') == entry_id then
  redis.call('PEXPIRE', record, kept_ms)
  redis.call('PEXPIRE', steps, kept_ms)
end
return { 'first' }
