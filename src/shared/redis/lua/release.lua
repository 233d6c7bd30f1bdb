-- release: the holder hands the agent back; no claim before `delay_ms` from now. The next check is never earlier than
-- before. `crashed`: the worker reports that the holder's process has crashed; the holder's last values stay.
-- Include holder, age, queue, events, crashes.
-- Closes: a hand-back that waits for its lease to run out; a re-sent release waking twice; a hand-back that forgets a lost
-- call, or wipes out the crashes that call for isolation; a crash taking back the running time and the progress that its holder
-- had written.
local agent = read(record, 'status', 'epoch', 'wake', 'released_epoch', 'unanswered_since', 'max_age_ms', 'committed',
  'crashes_without_progress', 'isolated_crashes', 'isolation', 'deadline', 'uid', 'agent_id', 'name', 'run',
  'provider_wait_since')
if agent.status == 'queued' and is_done(agent, 'released_epoch', epoch) then
  return answer('released', { wake = agent.wake })
end
if not holds(agent, epoch) then return answer('stale') end

local now = now_ms()
local not_before = now + delay_ms
local deadline = math.max(math.min(not_before + check_ms, too_old_at(agent)), num(agent.deadline))
local wake = num(agent.wake) + 1
write_even_when_full(record)
local crashes, isolated_crashes = num(agent.crashes_without_progress), num(agent.isolated_crashes)
if crashed or agent.committed == '1' then crashes, isolated_crashes = crashes_after(agent, true) end
-- The time since which a provider has failed the run without an advance, over several claims.
local waits_since = provider_wait and (agent.committed ~= '1' and agent.provider_wait_since or now) or nil
-- Events first: a key of the wrong type fails here, and the holder still has the agent.
tell_events(agent, events)
if not provider_wait then redis.call('HDEL', record, 'provider_wait', 'provider_wait_since') end
local fields = { provider_wait = provider_wait, provider_wait_since = waits_since, wake = wake, released_epoch = epoch,
  not_before = not_before, crashes_without_progress = crashes,
  isolated_crashes = isolated_crashes ~= num(agent.isolated_crashes) and isolated_crashes or nil }
if crashed then
  fields.in_doubt = '1'
else
  fields.begun, fields.running_ms, fields.attempts, fields.breaks = lost_call or '', running_ms, attempts, breaks
end
queue(record, deadline, fields)
return answer('released', { wake = wake })
