/**
 * What can be seen of an installation besides its agents: unacked replies, workers, wakes, the server. Reads only; what
 * belongs together is read in one transaction.
 */
import type { Keys, ParentAddress } from "../protocol/keys.ts";
import { WORKER_TTL_MS, WorkerAnnouncement } from "../protocol/worker.ts";
import { inBatches } from "./batches.ts";
import type { RedisClient } from "./connection.ts";
import type { ReadableWakeQueue } from "./wake-queue.ts";

/** A reply channel with entries nobody has acked for a while. */
export interface OldReplies {
  parent: ParentAddress;
  /** All unacked entries, young ones included. */
  unacked: number;
  /** Age of the oldest one. */
  oldestMs: number;
}

/** A live worker, and when Redis got its announcement (Redis' time, epoch ms). */
export interface WorkerSight {
  worker: WorkerAnnouncement;
  announcedAtMs: number;
}

/** The wake queue at one moment. */
export interface WakesSight {
  waiting: number;
  active: number;
  delayed: number;
  /** Whether somebody paused the queue itself. */
  isPaused: boolean;
  /** Id of the job that will be taken next. */
  next: string | undefined;
}

const BATCH = 200;

/** Redis' own time, epoch ms. */
export async function redisNowMs(redis: RedisClient): Promise<number> {
  const [seconds, micros] = await redis.time();
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}

/** The channels of `parents` whose oldest entry is older than `ageMs`. */
export async function readOldReplies(
  redis: RedisClient,
  keys: Keys,
  parents: readonly ParentAddress[],
  ageMs: number,
): Promise<OldReplies[]> {
  const nowMs = await redisNowMs(redis);
  const found = await inBatches(parents, BATCH, async (parent): Promise<OldReplies[]> => {
    const { replies } = keys.parent(parent);
    const [oldest] = await redis.xrange(replies, "-", nowMs - ageMs, "COUNT", 1);
    if (!oldest) return [];
    return [{ parent, unacked: await redis.xlen(replies), oldestMs: nowMs - Number.parseInt(oldest[0], 10) }];
  });
  return found.flat();
}

/** The live workers, by id; announcements of a newer version that cannot be read are left out. */
export async function readWorkers(redis: RedisClient, keys: Keys): Promise<WorkerSight[]> {
  const ids = (await redis.smembers(keys.workers)).sort();
  const found = await inBatches(ids, BATCH, async (id): Promise<WorkerSight[]> => {
    const key = keys.worker(id);
    const answers = await redis.multi().get(key).pttl(key).exec();
    const nowMs = await redisNowMs(redis);
    const [text, leftMs] = (answers ?? []).map(([, value]) => value);
    const worker = announcementIn(text);
    if (!worker || typeof leftMs !== "number") return [];
    return [{ worker, announcedAtMs: nowMs - (WORKER_TTL_MS - leftMs) }];
  });
  return found.flat();
}

/** The wake queue as it stands. */
export async function readWakes(queue: ReadableWakeQueue): Promise<WakesSight> {
  const [counts, isPaused, [next]] = await Promise.all([
    queue.getJobCounts("wait", "prioritized", "active", "delayed"),
    queue.isPaused(),
    queue.getJobs(["wait"], 0, 0, true),
  ]);
  const { wait = 0, prioritized = 0, active = 0, delayed = 0 } = counts;
  return { waiting: wait + prioritized, active, delayed, isPaused, next: next?.id };
}

function announcementIn(text: unknown): WorkerAnnouncement | undefined {
  try {
    return WorkerAnnouncement.safeParse(JSON.parse(typeof text === "string" ? text : "null")).data;
  } catch {
    return undefined;
  }
}
