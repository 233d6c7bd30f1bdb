-- Whether the parent is gone: a sweeper noted the end of its lease, and `look_ms` later no process of it has come back.
local function is_parent_gone(now)
  local lapsed_at = num(redis.call('HGET', parent_lease, 'lapsed_at'))
  return lapsed_at > 0 and lapsed_at + look_ms <= now
end
