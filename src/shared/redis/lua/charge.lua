-- charge: books the cost of a call that was bought but not committed, once per purchase. The mark of the purchase is a field
-- beside the counters, so the record of an ended agent stays unchanged; marks are deleted with the first run of another day.
-- An entry that is in the log was committed after all, by a commit whose answer was lost: the counters of its run have it.
-- `head`: the beginning of an entry that was in the log. It is booked if Redis has forgotten the entry in a failover. A
-- missing transcript proves nothing, because it may have been deleted.
-- Include usage.
-- Closes: a call cut off by a destroy, a takeover or a lost lease that is in no counter; an answer that a failover took out
-- of them; one purchase booked twice.
if redis.call('EXISTS', record) == 0 then return answer('unknown') end
if redis.call('HEXISTS', usage, 'charged/' .. purchase_id) == 1 then return answer('same') end
local function is_in(entries)
  -- A key of the wrong type has no entry.
  local stored = redis.pcall('HGET', entries, entry_key)
  if head and type(stored) == 'string' then stored = string.sub(stored, 1, #head) end
  return stored == (head or entry)
end
if entry_key and (is_in(log) or is_in(transcript)) then return answer('committed') end
if head and redis.call('HGET', record, 'status') == 'ended' and redis.call('EXISTS', transcript) == 0 then
  return answer('unknown')
end
write_hash_even_when_full(usage)
count_usage(now_ms(), counters_of(bought))
redis.call('HSET', usage, 'charged/' .. purchase_id, '1')
return answer('charged')
