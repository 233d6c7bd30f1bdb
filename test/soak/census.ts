/** Counts the keys in Redis by kind, and decides which may remain when all work is over. */
import type { RedisClient } from "../../src/shared/redis/connection/connection.ts";

/** Number of keys by kind. */
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

/** Counts every key of the server, which must belong to the soak alone. */
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

/** Returns the number of all keys. */
export function total(census: Census): number {
  return [...census.values()].reduce((sum, count) => sum + count, 0);
}

/** Keys of the fair queue: one of the installation, and one of its only tenant, which expires 24 h after its last wake. */
const FAIR = 2;
/** Keys of parent indexes: the index of all parents, and that of their only tenant. */
const PARENTS = 2;

/**
 * Returns how many keys of a kind may remain, for the kinds that outlive the work by design. `replies` is then an empty
 * stream; `history` holds the parent's numbered events for 24 hours.
 */
function allowed(kind: string, { parents, workers, jobs, looks, promises, charged }: Quiet): number {
  if (["registry", "usage", "replies", "history", "timelines"].includes(kind)) return parents;
  if (kind === "worker") return workers;
  if (kind === "wake job") return jobs;
  if (kind === "request") return promises;
  if (kind === "charged") return charged;
  if (kind === "fair") return FAIR;
  if (kind === "parents") return PARENTS;
  if (kind === "deadlines" || kind === "hint-grace") return looks ? 1 : 0;
  return kind === "workers" || kind.startsWith("queue ") ? 1 : 0;
}

/**
 * Numbers of permitted keys when all work is over. `jobs`: jobs of taken wakes that the queue keeps. `looks`: whether the deadline
 * set holds only agents that ended while they were idle, which leave it when their idle time would have been over. `promises`:
 * request keys of tasks, which are kept as long as their replies may be requested. `charged`: marks of charged calls, which stay for days.
 */
export interface Quiet {
  parents: number;
  workers: number;
  jobs: number;
  looks: boolean;
  promises: number;
  charged: number;
}

/** Returns the keys that must not remain, as `kind: count (limit)`. */
export function leftovers(census: Census, quiet: Quiet): string[] {
  return [...census].flatMap(([kind, count]) => {
    const most = allowed(kind, quiet);
    return count > most ? [`${kind}: ${count} (${most} may stay)`] : [];
  });
}
