/**
 * The intake queue from the side that adds: tasks that wait for their time, and those of schedules. Any of BullMQ's clients
 * adds to it as well. Its neighbour `intake-jobs.ts` takes them. BullMQ is loaded with the first use.
 */
import type { Queue } from "bullmq";
import type { Keys } from "../protocol/keys.ts";
import { WAKE_DONE_KEPT_MS, WAKE_FAILED_KEPT_MS } from "../protocol/limits.ts";
import type { RedisClient } from "./connection/connection.ts";
import { redisNowMs } from "./redis-time.ts";
import { DELAYED_SCORE, EVENTS_KEPT, openBullQueue } from "./wake-queue.ts";

/** Jobs that are over and stay visible, at most. */
export const INTAKE_DONE_KEPT = 10_000;

/** When a schedule comes due: by a cron pattern in a time zone, or every so many ms from `startDate` (epoch ms). */
export type Recurrence = { pattern: string; tz?: string } | { every: number; startDate: number };

/** The queue from the side that adds. */
export interface IntakeQueue {
  /** Adds a job, to be taken not before `delayMs`; does nothing where one of this id is known. */
  add(id: string, wish: object, delayMs?: number): Promise<void>;
  /** Takes a job away that no process has taken. */
  remove(id: string): Promise<void>;
  /** `waiting` until the job has ended; `unknown`: it was never added, or ended long ago. */
  stateOf(id: string): Promise<"waiting" | "over" | "unknown">;
  /** Rejects with what the reader of cron patterns throws where it cannot read this one; `nowMs`: epoch ms. */
  check(rhythm: Recurrence, nowMs: number): Promise<void>;
  /** A job each time the schedule comes due, from now on; what came due while no process took jobs becomes one. */
  repeat(id: string, rhythm: Recurrence, wish: object): Promise<void>;
  /** No more jobs of that schedule; idempotent. */
  endRepeat(id: string): Promise<void>;
  /** When the schedule comes due next, epoch ms. */
  nextAt(id: string): Promise<number | undefined>;
  /** How many jobs a process that takes them would find now: those whose time has come, by Redis' clock. */
  due(): Promise<number>;
  /** Forgets the queue; the connection stays its owner's. */
  stop(): Promise<void>;
}

/** The intake queue on `redis`; made at the first use, when Redis is there. */
export function createIntakeQueue(redis: RedisClient, keys: Keys): IntakeQueue {
  let queue: Promise<TaskJobs> | undefined;
  const opened = () => {
    queue ??= openQueue(redis, keys);
    return queue;
  };
  return {
    async add(id, wish, delayMs = 0) {
      await (await opened()).add("task", wish, {
        jobId: id,
        ...(delayMs > 0 && { delay: Math.ceil(delayMs) }),
      });
    },
    async remove(id) {
      await (await opened()).remove(id);
    },
    async stateOf(id) {
      const [name, finishedOn] = await redis.hmget(keys.intakeJob(id), "name", "finishedOn");
      if (name == null) return "unknown";
      return finishedOn == null ? "waiting" : "over";
    },
    async check(rhythm, nowMs) {
      if (!("pattern" in rhythm)) return;
      const { getNextMillis } = await import("bullmq");
      getNextMillis(nowMs, rhythm);
    },
    async repeat(id, rhythm, wish) {
      await (await opened()).upsertJobScheduler(id, rhythm, { name: "task", data: wish });
    },
    async endRepeat(id) {
      await (await opened()).removeJobScheduler(id);
    },
    nextAt: async (id) => (await (await opened()).getJobScheduler(id))?.next,
    async due() {
      const [inLine, nowMs] = await Promise.all([
        (await opened()).getJobCountByTypes("waiting", "prioritized"),
        redisNowMs(redis),
      ]);
      return inLine + (await redis.zcount(keys.delayedIntake, 0, nowMs * DELAYED_SCORE));
    },
    async stop() {
      await (await queue)?.close();
      queue = undefined;
    },
  };
}

type TaskJobs = Queue<object, unknown, string>;

function openQueue(redis: RedisClient, keys: Keys): Promise<TaskJobs> {
  return openBullQueue(redis, keys, keys.intakeQueue, {
    skipWaitingForReady: true,
    streams: { events: { maxLen: EVENTS_KEPT } },
    defaultJobOptions: {
      attempts: 1,
      removeOnComplete: { age: WAKE_DONE_KEPT_MS / 1_000, count: INTAKE_DONE_KEPT },
      removeOnFail: { age: WAKE_FAILED_KEPT_MS / 1_000, count: INTAKE_DONE_KEPT },
    },
  });
}
