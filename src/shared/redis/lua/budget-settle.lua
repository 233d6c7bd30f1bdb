-- budget-settle: replaces what was reserved for a call by what it took, in the slice in which it was reserved.
-- Closes: a call that is settled twice; one that is given back to a slice that is forgotten.
local reserved = redis.call('HGET', budget, 'r/' .. purchase_id)
if not reserved then return answer('same') end
write_hash_even_when_full(budget)
local was_tokens, was_micro_usd, slice = string.match(reserved, '^(%S+) (%S+) (%S+)$')
redis.call('HINCRBY', budget, 't/' .. slice, fmt(tokens - num(was_tokens)))
redis.call('HINCRBY', budget, 'c/' .. slice, fmt(micro_usd - num(was_micro_usd)))
redis.call('HDEL', budget, 'r/' .. purchase_id)
return answer('settled')
