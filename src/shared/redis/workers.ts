/**
 * The live workers and their abilities: announcements that expire. A hint for people and for spawn receipts; nothing waits
 * for it.
 */
import type { Keys } from "../protocol/keys.ts";
import { TIMING } from "../protocol/limits.ts";
import { WORKER_TTL_MS, WorkerAnnouncement } from "../protocol/worker.ts";
import type { RedisClient } from "./connection/connection.ts";
import { loadScripts } from "./scripts.ts";

/** See the module's header. */
export interface WorkerDirectory {
  /**
   * Announces that a worker lives; repeat it well before {@link WORKER_TTL_MS} is over. Rejects if Redis refuses writes; the
   * announcement is renewed all the same if only its memory is full. `isAgain`: the worker has announced itself before, so
   * if Redis has no announcement of it, the new one says `returned`. Default false.
   */
  announce(worker: Omit<WorkerAnnouncement, "v">, how?: { isAgain: boolean }): Promise<void>;
  /** Removes a worker at once; one that just dies is removed after {@link WORKER_TTL_MS}. */
  withdraw(workerId: string): Promise<void>;
  /** Lists the live workers by id. Skips unreadable announcements of a newer version. */
  list(): Promise<WorkerAnnouncement[]>;
  /**
   * Returns the length of the list for a few commands, however long it is. A worker that died lately may count; each call removes
   * up to {@link ASKED} of those.
   */
  count(): Promise<number>;
  /** Returns whether the list has a worker. Reads at most {@link ASKED} announcements while one of them is live. */
  isAnyLive(): Promise<boolean>;
}

/** Announcements that show whether a worker is live, and those that are checked when workers are counted. */
const ASKED = 8;
/** Announcements that one command reads: about half a millisecond of Redis. */
const PAGE_WORKERS = 1_000;

/** Returns the directory on `redis`. */
export function createWorkerDirectory(redis: RedisClient, keys: Keys): WorkerDirectory {
  const scripts = loadScripts(redis, keys, TIMING);
  /** Reads announcements, and removes the ids of workers that are gone. */
  const read = async (ids: readonly string[]): Promise<WorkerAnnouncement[]> => {
    if (ids.length === 0) return [];
    const texts = await redis.mget(ids.map((id) => keys.worker(id)));
    // If a worker announces again right after its announcement expired, its next announcement restores it here.
    const gone = ids.filter((_, i) => texts[i] === null);
    if (gone.length > 0) await redis.srem(keys.workers, ...gone);
    return texts.flatMap((text) => decode(text));
  };
  const readSome = async () => read(await redis.srandmember(keys.workers, ASKED));
  const list = async () => {
    const ids = (await redis.smembers(keys.workers)).sort();
    const found: WorkerAnnouncement[] = [];
    for (let from = 0; from < ids.length; from += PAGE_WORKERS)
      found.push(...(await read(ids.slice(from, from + PAGE_WORKERS))));
    return found;
  };
  return {
    list,
    async count() {
      await readSome();
      return redis.scard(keys.workers);
    },
    async isAnyLive() {
      const some = await readSome();
      return some.length > 0 || (await list()).length > 0;
    },
    async announce(worker, { isAgain } = { isAgain: false }) {
      const announcement: WorkerAnnouncement = { v: 1, ...worker };
      const returning: WorkerAnnouncement = isAgain ? { returned: true, ...announcement } : announcement;
      await Promise.all([
        scripts.run("announce", undefined, {
          worker_id: worker.id,
          announcement: JSON.stringify(announcement),
          returning: JSON.stringify(returning),
          ms: WORKER_TTL_MS,
        }),
        // A Redis without free memory refuses this one, which tells the worker so.
        redis.sadd(keys.workers, worker.id),
        redis.pexpire(keys.workers, WORKER_TTL_MS),
      ]);
    },
    async withdraw(workerId) {
      // No transaction, because a Redis without free memory refuses it.
      await Promise.all([redis.del(keys.worker(workerId)), redis.srem(keys.workers, workerId)]);
    },
  };
}

function decode(text: string | null): WorkerAnnouncement[] {
  try {
    const parsed = WorkerAnnouncement.safeParse(JSON.parse(text ?? "null"));
    return parsed.success ? [parsed.data] : [];
  } catch {
    return [];
  }
}
