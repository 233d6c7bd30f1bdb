-- Adds the counters of a run to the parent's counters of today (Redis' clock). The first run of a new day deletes days that
-- are too old. A counter that is not a number starts again, and a key of the wrong type is left alone: neither keeps a run
-- from its end. Uses the script's usage and usage_ttl_ms.
local DAY_MS = 86400000
local function count_usage(now, counters)
  local day = math.floor(now / DAY_MS)
  local function fails(reply) return type(reply) == 'table' and reply.err end
  local today = fmt(day) .. '/'
  local has_today = redis.pcall('HEXISTS', usage, today .. 'turns')
  if fails(has_today) then return end
  if has_today == 0 then
    for _, field in ipairs(redis.call('HKEYS', usage)) do
      if num(string.match(field, '^%d+')) <= day - usage_ttl_ms / DAY_MS then redis.call('HDEL', usage, field) end
    end
  end
  for counter, n in pairs(counters) do
    if fails(redis.pcall('HINCRBY', usage, today .. counter, fmt(num(n)))) then redis.call('HSET', usage, today .. counter, fmt(num(n))) end
  end
  redis.call('PEXPIRE', usage, usage_ttl_ms)
end

-- Returns the counters of a progress, JSON; zeros if it cannot be read.
local function counters_of(progress)
  local readable, came_to = pcall(cjson.decode, progress)
  if not readable or type(came_to) ~= 'table' then came_to = {} end
  local cost_usd, used = came_to[PROGRESS.cost_usd], came_to[PROGRESS.usage]
  local counters = { turns = num(came_to[PROGRESS.turns]), cost_micro_usd = math.floor(num(cost_usd) * 1000000 + 0.5) }
  for counter, at in pairs(COUNTS) do
    if type(used) == 'table' and used[at] then counters[counter] = num(used[at]) end
  end
  return counters
end
