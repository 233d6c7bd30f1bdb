/**
 * Simulates a jump of Redis' clock for one installation: one script moves all stored times and TTLs in the opposite direction.
 * Lua scripts compare `TIME` only with stored times, and BullMQ's locks and temporary keys are TTLs. For both, the effect is
 * that of a clock that jumped between two commands. MONITOR's times stay comparable with those of other processes.
 *
 * These times are not moved: BullMQ's delayed jobs, whose times come from and are compared with the clocks of processes; ids of
 * streams, which a clock set back does not lower; and times that matter only after days. The tests that use this have no limited
 * provider, so there are no times of a limiter. A time that a process holds in memory is not moved either: if a sweeper sends
 * an old score, its verb is refused, because the score has changed.
 */
import type { RedisClient } from "../../src/shared/redis/connection/connection.ts";

/** Fields of an agent's record that are times of Redis. */
export const RECORD_TIMES: readonly string[] = [
  "deadline",
  "lease_until",
  "not_before",
  "unanswered_since",
  "inbox_since",
  "created_at",
  "ended_at",
  "tools_since",
  "provider_wait_since",
];

const MOVE = `
local by, deadlines, hint_grace = ARGV[1], ARGV[2], ARGV[3]
local function move_fields(hash, names)
  for _, name in ipairs(names) do
    if tonumber(redis.call('HGET', hash, name) or '') then redis.call('HINCRBY', hash, name, by) end
  end
end
local times = {}
for i = 6, #ARGV do times[#times + 1] = ARGV[i] end
for _, pattern in ipairs({ ARGV[4], ARGV[5] }) do
  for _, key in ipairs(redis.call('KEYS', pattern)) do
    if string.find(key, ':agent:[^:]+$') then move_fields(key, times) end
    local left = redis.call('PTTL', key)
    if left > 0 then redis.call('PEXPIRE', key, string.format('%.0f', left + by)) end
  end
end
for _, member in ipairs(redis.call('ZRANGE', deadlines, 0, -1)) do redis.call('ZINCRBY', deadlines, by, member) end
move_fields(hint_grace, redis.call('HKEYS', hint_grace))
`;

/** Moves the clock of the installation's Redis forward by `byMs` ms, or back if `byMs` is negative. */
export async function setClockForth(
  {
    redis,
    prefix,
    keys,
  }: { redis: RedisClient; prefix: string; keys: { deadlines: string; hintGrace: string } },
  byMs: number,
): Promise<void> {
  const patterns = [`${prefix}:{*`, `{${prefix}}:*`];
  await redis.eval(MOVE, 0, -Math.round(byMs), keys.deadlines, keys.hintGrace, ...patterns, ...RECORD_TIMES);
}
