/**
 * The queue of wakes: ids only. Adding a wake that is still known is harmless; a lost one is
 * replaced by a sweeper. The queue is made at the first use, when Redis is there, and BullMQ is loaded then: who only looks
 * at agents starts without it.
 */
import type { Queue, QueueOptions } from "bullmq";
import { messageOf } from "../errors.ts";
import type { Logger } from "../logger.ts";
import { PAYLOAD_VERSION } from "../protocol/agent.ts";
import { type Keys, wakeJobId } from "../protocol/keys.ts";
import { TIMING, WAKE_DONE_KEPT_MS, WAKE_FAILED_KEPT_MS } from "../protocol/limits.ts";
import { jsonIn } from "../protocol/text.ts";
import { Wake } from "../protocol/worker.ts";
import type { RedisClient } from "./connection/connection.ts";
import { redisNowMs } from "./redis-time.ts";
import { loadScripts } from "./scripts.ts";

/** The longest rest of a wake that a worker hands back because it cannot do anything for its agent. */
export const LONGEST_REST_MS = 10_000;
/** BullMQ's score of a delayed job is its time in epoch ms, times this. */
export const DELAYED_SCORE = 0x1000;
/** The last place in the line: BullMQ's greatest priority; `fair-rank.lua` gives each wake a better one. */
const UNRANKED = 2_097_151;
/** Events of its own that BullMQ keeps of a queue. */
export const EVENTS_KEPT = 200;
/** Jobs of wakes that were taken, and of those whose run failed, that stay visible at most; each is about a kilobyte. */
const DONE_KEPT = 100;
const FAILED_KEPT = 1_000;
/** What becomes of a wake's job, as BullMQ has it. The worker says so when a job is over: in each job it would be stored anew. */
export const WAKES_KEPT = {
  removeOnComplete: { age: WAKE_DONE_KEPT_MS / 1_000, count: DONE_KEPT },
  removeOnFail: { age: WAKE_FAILED_KEPT_MS / 1_000, count: FAILED_KEPT },
};

/** See the module's header. */
export interface WakeQueue {
  /**
   * Adds the job of a wake. Without `delayMs` a run begins, and waits in the line that tenants and parents share; with it a
   * run goes on, not before that, and ahead of those that begin. Never rejects: a wake that could not be added is logged and
   * replaced by a sweeper.
   */
  add(wake: Omit<Wake, "v">, delayMs?: number): Promise<void>;
  /**
   * Whether the job of a wake waits to be taken now, or was handed back by a worker, also while it rests after that. A delayed
   * job does not count, nor one that was taken: a worker that takes a wake claims its agent at once, or is dead, stopped, or
   * never learned that it has taken it.
   */
  isAlive(wake: Pick<Wake, "uid" | "wake">): Promise<boolean>;
  /** Its jobs by state: `waiting`, `active`, `delayed`. */
  counts(): Promise<Record<string, number>>;
  /** No worker takes a wake until {@link WakeQueue.resume}; also those that start later. Idempotent. */
  pause(): Promise<void>;
  /** Wakes are taken again, at once. Idempotent. */
  resume(): Promise<void>;
  /** Forgets the queue; the connection stays its owner's. */
  stop(): Promise<void>;
}

/** The wake queue on `redis`. */
export function createWakeQueue(redis: RedisClient, keys: Keys, logger?: Logger): WakeQueue {
  let queue: Promise<WakeJobs> | undefined;
  const using = async <T>(work: (opened: WakeJobs) => Promise<T>): Promise<T> => {
    queue ??= openQueue(redis, keys);
    return work(await queue);
  };
  const scripts = loadScripts(redis, keys, TIMING);
  /** One trip that no caller waits for: a wake without a place in the line is the last one in it. */
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
    async isAlive(wake) {
      // Four fields, whatever waits: the state that the queue would tell is looked up in the whole wait list.
      const id = wakeJobId(wake);
      const job = await redis.hmget(keys.wakeJob(id), "name", "processedOn", "finishedOn", "delay");
      const [name, processedOn, finishedOn, delay] = job;
      if (name == null || finishedOn != null) return false;
      // BullMQ puts the delay of a job that it moves into the line to zero.
      if (processedOn == null) return Number(delay) === 0;
      return isHandedBack(redis, keys, id);
    },
    counts: () => using(countsOf),
    pause: () => using((opened) => opened.pause()),
    resume: () => using((opened) => opened.resume()),
    async stop() {
      await (await queue)?.close();
      queue = undefined;
    },
  };
}

/** Whether a wake that a worker took stands in the line again, or rests for a moment, and is one that this version can follow. */
async function isHandedBack(redis: RedisClient, keys: Keys, id: string): Promise<boolean> {
  const [data, rank, delayedUntil, nowMs] = await Promise.all([
    redis.hget(keys.wakeJob(id), "data"),
    redis.zscore(keys.rankedWakes, id),
    redis.zscore(keys.delayedWakes, id),
    redisNowMs(redis),
  ]);
  const isInLine = rank !== null || isSoon(delayedUntil, nowMs);
  return isInLine && Wake.safeParse(jsonIn(data ?? "")).success;
}

function isSoon(delayedUntil: string | null, nowMs: number): boolean {
  return delayedUntil !== null && Number(delayedUntil) / DELAYED_SCORE <= nowMs + LONGEST_REST_MS;
}

type WakeJobs = Queue<Wake, unknown, string>;

/** When the job of a wake may be taken: from its place in the line, or after the delay of a run that goes on. */
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

/** A queue of BullMQ, which is loaded with the first one. The caller closes it; the connection stays its owner's. */
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

/** The wake queue as the board, `doctor` and the metrics of the API read it. */
export type ReadableWakeQueue = Queue;

/** The wake queue for reading: writes nothing by itself. The caller closes it; the connection stays its owner's. */
export function openWakeQueueForReading(redis: RedisClient, keys: Keys): Promise<ReadableWakeQueue> {
  return openBullQueue(redis, keys, keys.wakeQueue, { skipMetasUpdate: true });
}
