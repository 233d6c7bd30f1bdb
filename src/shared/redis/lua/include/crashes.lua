-- Counts crashes. `agent` has committed, crashes_without_progress, isolated_crashes and isolation: how the run was claimed.
-- '' is beside other runs, 'group' in a process of suspects, 'own_process', 'own_worker' as the only run of a worker. From
-- SUSPECT on the run is claimed in isolation only, at CRASHED it is settled. A crash of its own process settles it at once
-- if a worker saw it; unseen isolated crashes settle it after MOST_UNSEEN, because a worker that died may have taken the
-- process along. A run in doubt is not a suspect yet, but runs in a process of suspects; if that crashes, it becomes one.
local SUSPECT, CRASHED, MOST_UNSEEN = 2, 3, 4

-- The run has advanced: earlier failures no longer count against it. Its crashes are cleared by the next hand-back, or by
-- the claim that finds its lease expired.
local function advance(fields)
  fields.committed, fields.attempts, fields.breaks = '1', '0', '0'
  return fields
end

-- Returns the crashes without progress, and how many of them were in isolation, after one more. A suspect shares a worker
-- with other runs in one case only: its crashes are final, and it is claimed to be settled.
local function crashes_after(agent, is_seen)
  local crashes, isolated = num(agent.crashes_without_progress), num(agent.isolated_crashes)
  if agent.committed == '1' then return 0, 0 end
  if crashes < SUSPECT then
    if is_seen and agent.isolation == 'group' then return SUSPECT, 1 end
    return crashes + 1, 0
  end
  if agent.isolation == 'own_worker' then return crashes + 1, isolated end
  if agent.isolation == 'group' then return crashes, math.max(isolated, 1) end
  isolated = math.max(isolated, 1) + 1
  if is_seen or isolated >= MOST_UNSEEN then crashes = CRASHED end
  return crashes, isolated
end
