-- Returns members of the set, or fields and values of the hash, `key` from a random part of it, and a random number by which to
-- choose among them. `scan`: 'SSCAN' or 'HSCAN'; `seed`: a text that differs from call to call. Redis reads a small collection whole,
-- so more than `most` may come. A random part may be empty, and is on the embedded server: the first part is read instead.
local function sample(scan, key, seed, most)
  local from = redis.sha1hex(seed)
  local function page(cursor) return redis.call(scan, key, cursor, 'COUNT', fmt(most))[2] end
  local found = page(fmt(tonumber(string.sub(from, 1, 8), 16)))
  if #found == 0 then found = page('0') end
  return found, tonumber(string.sub(from, 9, 16), 16)
end
