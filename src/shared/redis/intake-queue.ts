/**
 * The producer side of the intake queue: tasks that wait for their time, and those of schedules. Other BullMQ clients add to
 * it as well. Its neighbour `intake-jobs.ts` takes them. BullMQ is loaded at the first use.
 */
import type { Queue } from "bullmq";
import { SubagentError } from "../errors.ts";
import type { Keys } from "../protocol/keys.ts";
import { WAKE_DONE_KEPT_MS, WAKE_FAILED_KEPT_MS } from "../protocol/limits.ts";
import { createOpenable } from "../start-stop.ts";
import type { RedisClient } from "./connection/connection.ts";
import { redisNowMs } from "./redis-time.ts";
import { closeQueue, DELAYED_SCORE, EVENTS_KEPT, openBullQueue } from "./wake-queue.ts";

/** The return value of a job that its schedule no longer wants. */
export const NOTHING_BEGUN = { begun: false };
/** Most finished jobs that stay visible. */
export const INTAKE_DONE_KEPT = 10_000;

/** Recurrence of a schedule: a cron pattern in a time zone, or an interval `every` in ms from `startDate` (epoch ms). */
export type Recurrence = { pattern: string; tz?: string } | { every: number; startDate: number };

/** The producer side of the queue. */
export interface IntakeQueue {
  /** Adds a job that is taken after `delayMs`; does nothing if its id is known. */
  add(id: string, data: object, delayMs?: number): Promise<void>;
  /** Removes a job that no process has taken. */
  remove(id: string): Promise<void>;
  /**
   * Reads the state of a job: `waiting` until it has ended; `unbegun`: it ended without beginning its task; `unknown`: it was
   * never added, or ended long ago.
   */
  stateOf(id: string): Promise<"waiting" | "over" | "unbegun" | "unknown">;
  /** Rejects with the error of the cron parser, or `invalid_input` for a pattern that never comes due; `nowMs`: epoch ms. */
  check(rhythm: Recurrence, nowMs: number): Promise<void>;
  /**
   * Adds a job each time the schedule is due, from now on; times missed while no process took jobs become one job. Does nothing
   * if it does so already: a job that has come due stays, and an interval goes on. Does nothing for a pattern that never comes due,
   * which an earlier version may have stored.
   */
  repeat(id: string, rhythm: Recurrence, data: object): Promise<void>;
  /** Ends the jobs of that schedule; idempotent. */
  endRepeat(id: string): Promise<void>;
  /** Reads when the schedule is due next, epoch ms. */
  nextAt(id: string): Promise<number | undefined>;
  /** Counts the jobs that a consumer would find now: those whose time has come, by Redis' clock. */
  due(): Promise<number>;
  /** Closes the queue, but not the connection. */
  stop(): Promise<void>;
}

/** Returns the intake queue on `redis`; BullMQ's queue is made at the first use. */
export function createIntakeQueue(redis: RedisClient, keys: Keys): IntakeQueue {
  const queue = createOpenable(() => openQueue(redis, keys), closeQueue);
  return {
    async add(id, data, delayMs = 0) {
      await (await queue.start()).add("task", data, {
        jobId: id,
        ...(delayMs > 0 && { delay: Math.ceil(delayMs) }),
      });
    },
    async remove(id) {
      await (await queue.start()).remove(id);
    },
    stateOf: (id) => readState(redis, keys, id),
    async check(rhythm, nowMs) {
      if (!("pattern" in rhythm)) return;
      const { getNextMillis } = await import("bullmq");
      if ((await comesDue(rhythm)) && getNextMillis(nowMs, rhythm) !== undefined) return;
      throw new SubagentError("invalid_input", "it never comes due: no month that it names has such a day");
    },
    async repeat(id, rhythm, data) {
      if (!(await comesDue(rhythm)) || (await repeats(redis, keys, { id, rhythm, data }))) return;
      await (await queue.start()).upsertJobScheduler(id, rhythm, { name: "task", data });
    },
    async endRepeat(id) {
      await (await queue.start()).removeJobScheduler(id);
    },
    nextAt: (id) => readNextAt(redis, keys, id),
    async due() {
      const [inLine, nowMs] = await Promise.all([
        (await queue.start()).getJobCountByTypes("waiting", "prioritized"),
        redisNowMs(redis),
      ]);
      return inLine + (await redis.zcount(keys.delayedIntake, 0, nowMs * DELAYED_SCORE));
    },
    stop: queue.stop,
  };
}

/** A leap year, epoch ms: each day of a month that there is occurs in it. */
const [LEAP_YEAR_FROM, LEAP_YEAR_TO] = [Date.UTC(2028, 0), Date.UTC(2029, 0)];

/**
 * Returns whether a pattern ever comes due. A restricted day of the week always does; otherwise the days are looked for in one
 * year, because the parser's own search goes through 64 years at once and takes a second.
 */
async function comesDue(rhythm: Recurrence): Promise<boolean> {
  if (!("pattern" in rhythm)) return true;
  const [day = "*", month = "*", weekday] = rhythm.pattern.trim().split(/\s+/).slice(-3);
  if (weekday !== "*" && weekday !== "?") return true;
  const { getNextMillis } = await import("bullmq");
  // In another zone a day may have no midnight.
  const days = { pattern: `0 0 ${day} ${month} *`, tz: "UTC", endDate: LEAP_YEAR_TO };
  return getNextMillis(LEAP_YEAR_FROM - 1, days) !== undefined;
}

/** Reads two small values. BullMQ's own read of a scheduler brings the data of its jobs as well: up to 768 KB. */
async function readNextAt(redis: RedisClient, keys: Keys, id: string): Promise<number | undefined> {
  const [isThere, next] = await Promise.all([
    redis.exists(keys.intakeJob(`repeat:${id}`)),
    redis.zscore(keys.repeatedIntake, id),
  ]);
  return isThere === 1 && next !== null ? Number(next) : undefined;
}

/** Returns true if the queue repeats `data` in this rhythm, and its next job waits. */
async function repeats(
  redis: RedisClient,
  keys: Keys,
  { id, rhythm, data }: { id: string; rhythm: Recurrence; data: object },
): Promise<boolean> {
  const nextMs = await readNextAt(redis, keys, id);
  if (nextMs === undefined || (await readState(redis, keys, `repeat:${id}:${nextMs}`)) !== "waiting")
    return false;
  const fields = ["pattern", "tz", "every", "data"] as const;
  const stored = await redis.hmget(keys.intakeJob(`repeat:${id}`), ...fields);
  const { pattern, tz, every } = { pattern: undefined, tz: undefined, every: undefined, ...rhythm };
  const wanted = [pattern, tz, every?.toString(), JSON.stringify(data)];
  return wanted.every((value, i) => value === (stored[i] ?? undefined));
}

/** Reads the state of a job; see {@link IntakeQueue.stateOf}. */
async function readState(redis: RedisClient, keys: Keys, id: string): ReturnType<IntakeQueue["stateOf"]> {
  const job = await redis.hmget(keys.intakeJob(id), "name", "finishedOn", "returnvalue");
  const [name, finishedOn, value] = job;
  if (name == null) return "unknown";
  if (finishedOn == null) return "waiting";
  return value === JSON.stringify(NOTHING_BEGUN) ? "unbegun" : "over";
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
