-- key-revoke: stores an API key as revoked.
-- Closes: an operator who cannot revoke a key while Redis has no memory left.
write_even_when_full(api_keys)
redis.call('HSET', api_keys, key_id, revoked)
return answer('revoked')
