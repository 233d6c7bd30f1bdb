/** Writes many event lines in the format of the verbs, which write only one at a time. */
import { agentOf, type Keys, type ParentAddress } from "../../src/shared/protocol/keys.ts";
import type { RedisClient } from "../../src/shared/redis/connection/connection.ts";

/** Number of the first line: earlier than any line of a verb, but not old enough to be trimmed. */
const OLDEST_MS = Date.now() - 3_600_000;

/** Options of {@link writeLines}. */
export interface LinesToWrite {
  /** Agents that run concurrently: they write lines in turn. */
  uids: readonly string[];
  /** Number of lines per agent. */
  each: number;
  /** Number of lines already written; default 0. */
  behind?: number;
}

/** Writes the lines; resolves to their numbers, oldest first. The nth line of an agent reports its turn n. */
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
