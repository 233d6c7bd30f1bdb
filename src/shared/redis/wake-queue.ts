/**
 * The queue of wakes: ids only. Adding a wake that is still known is harmless; a lost one is replaced by a sweeper. BullMQ
 * is loaded, and its queue made, at the first use: a program that only reads agents starts without it.
 */
import type { Queue, QueueOptions } from "bullmq";
import { messageOf } from "../errors.ts";
import type { Logger } from "../logger.ts";
import { PAYLOAD_VERSION } from "../protocol/agent.ts";
import { type Keys, wakeJobId } from "../protocol/keys.ts";
import { TIMING, WAKE_DONE_KEPT_MS, WAKE_FAILED_KEPT_MS } from "../protocol/limits.ts";
import { jsonIn } from "../protocol/text.ts";
import { Wake } from "../protocol/worker.ts";
import { createOpenable } from "../start-stop.ts";
import type { RedisClient } from "./connection/connection.ts";
import { redisNowMs } from "./redis-time.ts";
import { loadScripts } from "./scripts.ts";

/** Longest delay of a wake that a worker returned because it can do nothing for its agent, in a line of many such wakes. */
export const LONGEST_RETURN_DELAY_MS = 300_000;
/** Largest error of a clock, ms, with which a worker's delay still counts as it meant it; with a larger one a sweeper wakes again. */
const CLOCKS_DIFFER_MS = TIMING.checkMs;
/** Factor of BullMQ's scores: the score of a delayed job is its time in epoch ms, times this. */
export const DELAYED_SCORE = 0x1000;
/** BullMQ's greatest priority, the end of the line; `fair-rank.lua` then moves the wake forward. */
const UNRANKED = 2_097_151;
/** Number of its own events that BullMQ keeps per queue. */
export const EVENTS_KEPT = 200;
/** Most finished jobs of wakes that stay visible, and most failed ones; each is about a kilobyte. */
const DONE_KEPT = 100;
const FAILED_KEPT = 1_000;
/** BullMQ's options for finished jobs of wakes. The worker sets them when a job ends: each added job would store them. */
export const WAKES_KEPT = {
  removeOnComplete: { age: WAKE_DONE_KEPT_MS / 1_000, count: DONE_KEPT },
  removeOnFail: { age: WAKE_FAILED_KEPT_MS / 1_000, count: FAILED_KEPT },
};

/** See the module's header. */
export interface WakeQueue {
  /**
   * Adds the job of a wake. Without `delayMs` a run begins, and waits in the line that tenants and parents share. With it a
   * run continues, after that delay and ahead of those that begin. Never rejects: a wake that could not be added is logged
   * and replaced by a sweeper.
   */
  add(wake: Omit<Wake, "v">, delayMs?: number): Promise<void>;
  /** Ends the delay of a wake's job. Does nothing if it is not delayed any more; never rejects, since its delay ends anyway. */
  promote(wake: Pick<Wake, "uid" | "wake">): Promise<void>;
  /**
   * Returns true if the job of a wake waits for a worker now, or a worker returned it, also during the delay after that. A
   * delayed job does not count, nor does one that was returned by a clock so far ahead that its delay ends much later. Nor does a
   * taken one: either its worker claims the agent at once, or the worker is dead or stopped, or the answer with the job never
   * reached it.
   */
  isAlive(wake: Pick<Wake, "uid" | "wake">): Promise<boolean>;
  /** Counts its jobs by state: `waiting`, `active`, `delayed`. */
  counts(): Promise<Record<string, number>>;
  /** Pauses the queue: no worker, new ones included, takes a wake until {@link WakeQueue.resume}. Idempotent. */
  pause(): Promise<void>;
  /** Resumes the queue: workers take wakes at once. Idempotent. */
  resume(): Promise<void>;
  /** Returns true if the queue is paused: no worker takes a wake. */
  isPaused(): Promise<boolean>;
  /** Closes the queue, but not the connection. */
  stop(): Promise<void>;
}

/** Returns the wake queue on `redis`. */
export function createWakeQueue(redis: RedisClient, keys: Keys, logger?: Logger): WakeQueue {
  const queue = createOpenable(() => openQueue(redis, keys), closeQueue);
  const using = async <T>(work: (opened: WakeJobs) => Promise<T>): Promise<T> => work(await queue.start());
  const scripts = loadScripts(redis, keys, TIMING);
  /** Ranks a wake. No caller waits for it: until then, or if it fails, the wake is at the end of the line. */
  const rank = ({ tenant, parent_id: fair_parent }: Omit<Wake, "v">, job_id: string) => {
    scripts.run("fair-rank", undefined, { tenant, fair_parent, job_id }).catch(() => {});
  };
  return {
    async add(wake, delayMs) {
      const data: Wake = { v: PAYLOAD_VERSION, ...wake };
      const options = { jobId: wakeJobId(wake), ...whenOf(delayMs) };
      try {
        await using((opened) => opened.add(wake.agent_id, data, options));
        if (delayMs === undefined) rank(wake, options.jobId);
      } catch (error) {
        logger?.warn({ job: options.jobId, problem: messageOf(error) }, "Wake not added; a sweeper adds it");
      }
    },
    async promote(wake) {
      const job = wakeJobId(wake);
      try {
        await using(async (opened) => (await opened.getJob(job))?.promote());
      } catch (error) {
        logger?.debug({ job, problem: messageOf(error) }, "Wake not promoted; its delay ends by itself");
      }
    },
    async isAlive(wake) {
      // Four fields, however long the line is: BullMQ's own state query searches the whole wait list.
      const id = wakeJobId(wake);
      const job = await redis.hmget(keys.wakeJob(id), "name", "processedOn", "finishedOn", "delay");
      const [name, processedOn, finishedOn, delay] = job;
      if (name == null || finishedOn != null) return false;
      // BullMQ sets the delay of a job that it moves into the line to zero.
      if (processedOn == null) return Number(delay) === 0;
      return isReturned(redis, keys, id);
    },
    counts: () => using(countsOf),
    pause: () => using((opened) => opened.pause()),
    resume: () => using((opened) => opened.resume()),
    isPaused: () => using((opened) => opened.isPaused()),
    stop: queue.stop,
  };
}

/** Returns true if a taken wake is in the line again, or delayed for a moment, and this version can parse it. */
async function isReturned(redis: RedisClient, keys: Keys, id: string): Promise<boolean> {
  const [[data, delay], rank, delayedUntil, nowMs] = await Promise.all([
    redis.hmget(keys.wakeJob(id), "data", "delay"),
    redis.zscore(keys.rankedWakes, id),
    redis.zscore(keys.delayedWakes, id),
    redisNowMs(redis),
  ]);
  const isInLine = rank !== null || isSoon(delayedUntil, nowMs, Number(delay));
  return isInLine && Wake.safeParse(jsonIn(data ?? "")).success;
}

/** Returns true if a delay of `delayMs`, which began by now, ends when it should: by Redis' clock, and not by that of the worker. */
function isSoon(delayedUntil: string | null, nowMs: number, delayMs: number): boolean {
  const longestMs = Math.min(delayMs + CLOCKS_DIFFER_MS, LONGEST_RETURN_DELAY_MS);
  return delayedUntil !== null && Number(delayedUntil) / DELAYED_SCORE <= nowMs + longestMs;
}

type WakeJobs = Queue<Wake, unknown, string>;

/** Returns BullMQ's options for a wake: the last place in the line, or the delay of a run that continues. */
function whenOf(delayMs: number | undefined): { priority?: number; delay?: number } {
  if (delayMs === undefined) return { priority: UNRANKED };
  return delayMs > 0 ? { delay: Math.ceil(delayMs) } : {};
}

async function countsOf(queue: WakeJobs): Promise<Record<string, number>> {
  const counts = await queue.getJobCounts("waiting", "prioritized", "active", "delayed");
  const { waiting = 0, prioritized = 0, ...others } = counts;
  return { ...others, waiting: waiting + prioritized };
}

function openQueue(redis: RedisClient, keys: Keys): Promise<WakeJobs> {
  return openBullQueue(redis, keys, keys.wakeQueue, {
    skipWaitingForReady: true,
    streams: { events: { maxLen: EVENTS_KEPT } },
    defaultJobOptions: { attempts: 1 },
  });
}

/** Opens a BullMQ queue; the first call loads BullMQ. The caller closes the queue and owns the connection. */
export async function openBullQueue<Data>(
  redis: RedisClient,
  { bullPrefix: prefix }: Keys,
  name: string,
  options: Partial<QueueOptions>,
): Promise<Queue<Data, unknown, string>> {
  const { Queue } = await import("bullmq");
  const queue = new Queue<Data, unknown, string>(name, {
    connection: redis,
    prefix,
    skipVersionCheck: true,
    ...options,
  });
  queue.on("error", () => {});
  return queue;
}

/** Closes a queue of {@link openBullQueue}. */
export function closeQueue(queue: Pick<Queue, "close">): Promise<void> {
  return queue.close();
}

/** The wake queue as the board, `doctor` and the metrics of the API read it. */
export type ReadableWakeQueue = Queue;

/** Opens the wake queue for reading: it writes nothing by itself. The caller closes it and owns the connection. */
export function openWakeQueueForReading(redis: RedisClient, keys: Keys): Promise<ReadableWakeQueue> {
  return openBullQueue(redis, keys, keys.wakeQueue, { skipMetasUpdate: true });
}
