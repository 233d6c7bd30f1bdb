-- Sets the agent to queued with its first check at `deadline`. Writes `fields` with it.
local function queue(record, deadline, fields)
  fields.status, fields.deadline = 'queued', deadline
  write(record, fields)
  redis.call('HDEL', record, 'lease_until', 'claim_id')
end

-- Queues the next run: nothing is left of the run before.
local function queue_run(record, run, wake, deadline, fields)
  redis.call('HDEL', record, 'progress', 'summary', 'finish', 'begun', 'message_ids', 'reply', 'tools_since',
    'in_doubt', 'isolated_crashes', 'provider_wait', 'provider_wait_since')
  fields.run, fields.wake = run, wake
  fields.running_ms, fields.attempts, fields.breaks, fields.crashes_without_progress = '0', '0', '0', '0'
  queue(record, deadline, fields)
end
