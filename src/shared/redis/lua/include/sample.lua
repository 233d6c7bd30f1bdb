-- Returns members of the set, or fields and values of the hash, `key` from a random part of it, and a random number by which to
-- choose among them. `scan`: 'SSCAN' or 'HSCAN'; `seed`: a text that differs from call to call. Redis reads a small collection whole,
-- so more than `most` may come; at times none do, because a part may be empty.
local function sample(scan, key, seed, most)
  local from = redis.sha1hex(seed)
  local found = redis.call(scan, key, fmt(tonumber(string.sub(from, 1, 8), 16)), 'COUNT', fmt(most))[2]
  return found, tonumber(string.sub(from, 9, 16), 16)
end
