-- resume-page: copies entries of an ended agent's transcript to the log of an agent that is about to be spawned, until they are
-- some 512 KB: a script that copies 32 MiB keeps Redis from others. The copy expires unless the agent is spawned.
-- Closes: a page that is sent again, and arrives after the spawn, letting the log of a living agent expire.
local PAGE_BYTES, KEPT_MS = 524288, 60000
if redis.call('EXISTS', record) == 1 then return answer('spawned') end

local copied, bytes = 0, 0
for _, entry in ipairs(entries) do
  if bytes >= PAGE_BYTES then break end
  local stored = redis.call('HGET', resumed, entry.key)
  if not stored then return answer('no_transcript') end
  redis.call('HSET', log, entry.key, stored)
  copied, bytes = copied + 1, bytes + #stored
end
redis.call('PEXPIRE', log, KEPT_MS)
return answer('copied', { count = copied })
