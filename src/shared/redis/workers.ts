/**
 * Which workers are alive and what they can do: announcements that expire. A hint for people and for spawn receipts;
 * nothing waits for it.
 */
import type { Keys } from "../protocol/keys.ts";
import { WORKER_TTL_MS, WorkerAnnouncement } from "../protocol/worker.ts";
import type { RedisClient } from "./connection/connection.ts";

/** See the module's header. */
export interface WorkerDirectory {
  /** Says that a worker lives; say it again well before {@link WORKER_TTL_MS} is over. */
  announce(worker: Omit<WorkerAnnouncement, "v">): Promise<void>;
  /** Takes a worker out at once; one that just dies is forgotten after {@link WORKER_TTL_MS}. */
  withdraw(workerId: string): Promise<void>;
  /** The live workers, by id. Announcements of a newer version that cannot be read are left out. */
  list(): Promise<WorkerAnnouncement[]>;
}

/** The directory on `redis`. */
export function createWorkerDirectory(redis: RedisClient, keys: Keys): WorkerDirectory {
  return {
    async announce(worker) {
      const announcement: WorkerAnnouncement = { v: 1, ...worker };
      await Promise.all([
        redis.set(keys.worker(worker.id), JSON.stringify(announcement), "PX", WORKER_TTL_MS),
        redis.sadd(keys.workers, worker.id),
        redis.pexpire(keys.workers, WORKER_TTL_MS),
      ]);
    },
    async withdraw(workerId) {
      // No transaction, which a Redis that has no memory left refuses.
      await Promise.all([redis.del(keys.worker(workerId)), redis.srem(keys.workers, workerId)]);
    },
    async list() {
      const ids = (await redis.smembers(keys.workers)).sort();
      if (ids.length === 0) return [];
      const texts = await redis.mget(ids.map((id) => keys.worker(id)));
      // A worker whose announcement just expired and that announces again now is back with its next announcement.
      const gone = ids.filter((_, i) => texts[i] === null);
      if (gone.length > 0) await redis.srem(keys.workers, ...gone);
      return texts.flatMap((text) => decode(text));
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
