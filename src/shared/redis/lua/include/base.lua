-- Part of every script, and the only code that reads arguments by position; text and usage read a progress so (ADR 75). Time
-- comes from Redis alone; numbers are written without exponent.
local function fmt(n) return string.format('%.0f', n) end
-- Returns a number; 0 if `v` is none.
local function num(v) return tonumber(v or '0') or 0 end
local function given(v) return v ~= '' and v or nil end
local function now_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- Returns the items of the list argument at `at`, as tables of the named fields, and where the next list begins.
local function list(at, ...)
  local argv, names, items, last = ARGV, { ... }, {}, at
  for i = 1, tonumber(argv[at]) do
    local item = {}
    for j = 1, #names do item[names[j]] = argv[last + j] end
    items[i], last = item, last + #names
  end
  return items, last + 1
end

-- Reads the named fields of a hash; missing ones are nil: an absent record has no status.
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

-- Packs an answer: its word, then each name before its value; nil and false are left out.
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

-- When Redis is out of memory, it refuses a script whose first write may allocate. This write never allocates and changes
-- nothing, because a live record has no TTL. So runs in progress can still renew, commit and end, and sweepers can end
-- agents, while spawns, sends and new wakes are refused.
local function write_even_when_full(record) redis.call('PERSIST', record) end
-- The same for a hash with a TTL: no hash has a field with an empty name.
local function write_hash_even_when_full(hash) redis.call('HDEL', hash, '') end
