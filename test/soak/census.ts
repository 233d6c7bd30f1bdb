/** What stands in Redis, by kind of key, and which of it may stay when all work is over. */
import type { RedisClient } from "../../src/shared/redis/connection/connection.ts";

/** Keys by kind. */
export type Census = ReadonlyMap<string, number>;

const PAGE = 1_000;
const JOB = /:wakes:sa-[0-9a-f]+\.\d+$/;

function kindOf(key: string): string {
  if (JOB.test(key)) return "wake job";
  const queue = /:wakes:(.+)$/.exec(key)?.[1];
  if (queue !== undefined) return queue.endsWith(":lock") ? "wake lock" : `queue ${queue}`;
  const agent = /:agent:sa-[0-9a-f]+(?::(\w+))?/.exec(key);
  if (agent) return agent[1] ?? "record";
  return /[}]:([\w-]+)/.exec(key)?.[1] ?? key;
}

/** Counts every key of the server, which must be the soak's own. */
export async function takeCensus(redis: RedisClient): Promise<Census> {
  const counts = new Map<string, number>();
  let cursor = "0";
  do {
    const [next, keys] = await redis.scan(cursor, "COUNT", PAGE);
    for (const key of keys) counts.set(kindOf(key), (counts.get(kindOf(key)) ?? 0) + 1);
    cursor = next;
  } while (cursor !== "0");
  return counts;
}

/** Sum of all kinds. */
export function total(census: Census): number {
  return [...census.values()].reduce((sum, count) => sum + count, 0);
}

/** Whose turn it is in the line: of the installation, and of its one tenant. Both go when the line stays empty. */
const FAIR = 2;
/** The index of all parents, and that of their one tenant. */
const PARENTS = 2;

/**
 * What may stay of the kinds that outlive the work by design. `replies` is then an empty stream; `history` holds the
 * parent's numbered events for 24 hours.
 */
function allowed(kind: string, { parents, workers, jobs, looks, promises }: Quiet): number {
  if (["registry", "usage", "replies", "history", "timelines"].includes(kind)) return parents;
  if (kind === "worker") return workers;
  if (kind === "wake job") return jobs;
  if (kind === "request") return promises;
  if (kind === "fair") return FAIR;
  if (kind === "parents") return PARENTS;
  if (kind === "deadlines" || kind === "hint-grace") return looks ? 1 : 0;
  return kind === "workers" || kind.startsWith("queue ") ? 1 : 0;
}

/**
 * What there is when nothing is going on. `jobs`: those that the queue keeps of taken wakes; `looks`: the deadline set holds
 * nothing but agents that ended while they were idle, to be forgotten when their idle time would have been over; `promises`:
 * request keys of tasks, which are remembered as long as their replies may be asked for.
 */
export interface Quiet {
  parents: number;
  workers: number;
  jobs: number;
  looks: boolean;
  promises: number;
}

/** What is left and should not be, as `kind: count`. */
export function leftovers(census: Census, quiet: Quiet): string[] {
  return [...census].flatMap(([kind, count]) => {
    const most = allowed(kind, quiet);
    return count > most ? [`${kind}: ${count} (${most} may stay)`] : [];
  });
}
