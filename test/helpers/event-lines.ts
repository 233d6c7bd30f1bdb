/** Lines of events as the verbs write them, as many as a test needs: a verb writes one at a time. */
import { agentOf, type Keys, type ParentAddress } from "../../src/shared/protocol/keys.ts";
import type { RedisClient } from "../../src/shared/redis/connection/connection.ts";

/** The number of the first line: before everything that a verb writes, and not too old to be kept. */
const OLDEST_MS = Date.now() - 3_600_000;

/** Which lines are written. */
export interface LinesToWrite {
  /** Agents that work side by side: each writes a line in its turn. */
  uids: readonly string[];
  /** Lines of each. */
  each: number;
  /** Lines that were written before. */
  behind?: number;
}

/** Writes them; resolves to their numbers, oldest first. The nth line of an agent tells of its turn n. */
export async function writeLines(
  redis: RedisClient,
  keys: Keys,
  parent: ParentAddress,
  { uids, each, behind = 0 }: LinesToWrite,
): Promise<string[]> {
  const { history } = keys.parent(parent);
  const lines = Array.from({ length: each }, (_, i) => uids.map((uid) => ({ uid, turn: i + 1 }))).flat();
  return Promise.all(
    lines.map(async ({ uid, turn }, i) => {
      const number = `${OLDEST_MS + behind + i}-0`;
      const { timeline } = keys.agent(agentOf(parent, uid));
      await Promise.all([
        redis.xadd(history, number, "u", uid),
        redis.rpush(timeline, `${number} 1 {"type":"turn_started","turn":${turn}}`),
      ]);
      return number;
    }),
  );
}
