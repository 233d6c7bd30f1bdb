-- finish: asks for a graceful end; the run's next model call is its final call. An agent that waits for an answer is queued,
-- and its open questions stay unanswered. A run that waits for its provider, or for a worker with its tools, gets a new wake.
-- Include live, orphan, queue.
-- Closes: a finish reported as accepted though no run is left that could report; a finish that waits until the parent answers,
-- or for tools that the end does not need, or for ever because it is repeated; a sweeper's finish of an agent whose parent came back.
local agent = read(record, 'status', 'run', 'ended_reason', 'wake', 'on_parent_gone', 'tools_since', 'not_before',
  'finish')
if not is_alive(agent) then return refused(agent) end
if agent.status == 'idle' then return answer('idle') end
if orphaned and not follows_parent(agent, now_ms()) then return answer('not_due') end
write_even_when_full(record)
redis.call('HSET', record, 'finish', '1')
if agent.status == 'running' then return answer('finishing', { run = agent.run }) end
-- A run that was asked before waits for its hooks, and keeps its time to wait.
local waits_for_tools = agent.tools_since and agent.finish ~= '1'
if agent.status == 'queued' and not waits_for_tools and num(agent.not_before) <= now_ms() then
  return answer('finishing', { run = agent.run, wake = agent.wake })
end

local wake = num(agent.wake) + 1
redis.call('HDEL', record, 'questions')
redis.call('HDEL', record, 'tools_since', 'not_before')
queue(record, now_ms() + check_ms, { wake = wake })
return answer('finishing', { run = agent.run, wake = wake })
