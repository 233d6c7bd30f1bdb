-- budget-settle: replaces the reservation of a call by its real usage, in the slice in which it was reserved.
-- Include reservation.
-- Closes: a call that is settled twice; one that is given back to a slice that is forgotten.
local was_tokens, was_micro_usd, slice = read_reservation(reservation, budget)
if not slice then return answer('same') end
write_hash_even_when_full(budget)
redis.call('HINCRBY', budget, 't/' .. slice, fmt(tokens - was_tokens))
redis.call('HINCRBY', budget, 'c/' .. slice, fmt(micro_usd - was_micro_usd))
redis.call('DEL', reservation)
return answer('settled')
