/**
 * Sets the clock of a Redis forth or back for one installation, without touching the clock: all times and all TTLs that stand
 * there move the other way, in one script. Scripts compare what `TIME` says with such times alone, and BullMQ's locks and what
 * stays for a while are TTLs; so to both it is as if the clock had jumped between two commands. The times that MONITOR tells
 * stay comparable with those of other processes.
 *
 * What stays as it is: BullMQ's delayed jobs, whose times come from the clocks of processes and are compared with those; the ids of
 * streams, which a clock that was set back does not take back; and times that matter after days. No model provider is limited
 * where this is used, so no limiter has times of its own. A time that a process holds when the clock jumps is not moved: what a
 * sweeper sends so late is refused, for the score that it has seen is another.
 */
import type { RedisClient } from "../../src/shared/redis/connection/connection.ts";

/** The fields of an agent's record that are times of Redis. */
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

/** Sets the clock of the installation's Redis forth by so many ms, or back where it is less than 0. */
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
