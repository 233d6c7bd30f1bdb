-- Stands in front of every script, and alone reads lists by position.
-- Time comes from Redis alone; numbers are written without exponent.
local function fmt(n) return string.format('%.0f', n) end
-- A number, 0 for what is none.
local function num(v) return tonumber(v or '0') or 0 end
local function given(v) return v ~= '' and v or nil end
local function now_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- The items of a list argument that begins at `at` with their number, as tables of the named fields; and where the next begins.
local function list(at, ...)
  local names, items = { ... }, {}
  local count = tonumber(ARGV[at])
  for i = 1, count do
    local item = {}
    for j, name in ipairs(names) do item[name] = ARGV[at + (i - 1) * #names + j] end
    items[i] = item
  end
  return items, at + count * #names + 1
end

-- The named fields of a hash; those it lacks are nil: an absent record has no status.
local function read(key, ...)
  local found, values = {}, redis.call('HMGET', key, ...)
  for i, name in ipairs({ ... }) do found[name] = values[i] or nil end
  return found
end

-- Writes the named fields of a hash, all in one command.
local function write(key, fields)
  local flat = {}
  for name, value in pairs(fields) do
    flat[#flat + 1] = name
    flat[#flat + 1] = type(value) == 'number' and fmt(value) or value
  end
  if #flat > 0 then redis.call('HSET', key, unpack(flat)) end
end

-- An answer: its word, then each name before its value; what is nil or false is left out.
local function answer(word, values)
  local packed = { word }
  for name, value in pairs(values or {}) do
    if value then
      packed[#packed + 1] = name
      packed[#packed + 1] = value == true and '1' or type(value) == 'number' and fmt(value) or value
    end
  end
  return packed
end

-- Out of memory, Redis refuses a script whose first write may allocate. This one never does and changes nothing (a live
-- record has no TTL): runs in progress can still renew, commit and end, and sweepers end what is over, while spawns, sends and
-- new wakes are refused.
local function write_even_when_full(record) redis.call('PERSIST', record) end
-- The same for a hash that has a TTL: no hash has a field without a name.
local function write_hash_even_when_full(hash) redis.call('HDEL', hash, '') end
