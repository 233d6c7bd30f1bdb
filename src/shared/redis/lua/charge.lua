-- charge: books what a call cost that was bought and could not be committed, once a purchase. The mark of a purchase stands
-- beside the counters, so that an ended record stays as its end left it; marks go with the first run of another day. An entry
-- that stands in the log was committed after all, by a commit whose answer was lost, and is in the counters of its run.
-- Include usage.
-- Closes: a call cut off by a destroy, a takeover or a lost lease that is in no counter; one purchase booked twice.
if redis.call('EXISTS', record) == 0 then return answer('unknown') end
if redis.call('HEXISTS', usage, 'charged/' .. purchase_id) == 1 then return answer('same') end
-- A key of another type has no entry.
if entry_key and (redis.pcall('HGET', log, entry_key) == entry or redis.pcall('HGET', transcript, entry_key) == entry) then
  return answer('same')
end
write_hash_even_when_full(usage)
count_usage(now_ms(), counters_of(bought))
redis.call('HSET', usage, 'charged/' .. purchase_id, '1')
return answer('charged')
