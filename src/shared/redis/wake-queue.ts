/**
 * The only BullMQ queue: carries wakes, ids only. Adding a wake that is still known is harmless; a lost one is
 * replaced by a sweeper. The queue is made at the first use, when Redis is there.
 */
import { Queue } from "bullmq";
import { messageOf } from "../errors.ts";
import type { Logger } from "../logger.ts";
import { PAYLOAD_VERSION } from "../protocol/agent.ts";
import { type Keys, wakeJobId } from "../protocol/keys.ts";
import { WAKE_DONE_KEPT_MS, WAKE_FAILED_KEPT_MS } from "../protocol/timing.ts";
import type { Wake } from "../protocol/wake.ts";
import type { RedisClient } from "./connection.ts";

const EVENTS_KEPT = 200;
const WAITING: ReadonlySet<string> = new Set(["waiting", "prioritized"]);

/** See the module's header. */
export interface WakeQueue {
  /**
   * Adds the job of a wake, to be taken not before `delayMs`. Never rejects: a wake that could not be added is logged
   * and replaced by a sweeper.
   */
  add(wake: Omit<Wake, "v">, delayMs?: number): Promise<void>;
  /**
   * Whether the job of a wake waits to be taken now. One that is still delayed does not count, nor one that was taken:
   * whoever takes a wake claims its agent at once, or is dead, stopped, or never learned that it has taken it.
   */
  isAlive(wake: Pick<Wake, "uid" | "wake">): Promise<boolean>;
  /** No worker takes a wake until {@link WakeQueue.resume}; also those that start later. Idempotent. */
  pause(): Promise<void>;
  /** Wakes are taken again, at once. Idempotent. */
  resume(): Promise<void>;
  /** Forgets the queue; the connection stays its owner's. */
  stop(): Promise<void>;
}

/** The wake queue as a dashboard reads it. */
export type ReadableWakeQueue = Queue;

/** The wake queue for reading: writes nothing by itself. The caller closes it; the connection stays its owner's. */
export function openWakeQueueForReading(redis: RedisClient, keys: Keys): ReadableWakeQueue {
  const queue = new Queue(keys.wakeQueue, {
    connection: redis,
    prefix: keys.bullPrefix,
    skipVersionCheck: true,
    skipMetasUpdate: true,
  });
  queue.on("error", () => {});
  return queue;
}

/** The wake queue on `redis`. */
export function createWakeQueue(redis: RedisClient, keys: Keys, logger?: Logger): WakeQueue {
  let queue: WakeJobs | undefined;
  /** A queue whose first contact with Redis failed repeats that failure for ever: after any failure a new one is made. */
  const using = async <T>(work: (opened: WakeJobs) => Promise<T>): Promise<T> => {
    queue ??= openQueue(redis, keys);
    const opened = queue;
    try {
      return await work(opened);
    } catch (error) {
      if (queue === opened) queue = undefined;
      opened.close().catch(() => {});
      throw error;
    }
  };
  return {
    async add(wake, delayMs = 0) {
      const data: Wake = { v: PAYLOAD_VERSION, ...wake };
      const options = { jobId: wakeJobId(wake), ...(delayMs > 0 && { delay: Math.ceil(delayMs) }) };
      try {
        await using((opened) => opened.add(wake.agent_id, data, options));
      } catch (error) {
        logger?.warn({ job: options.jobId, problem: messageOf(error) }, "Wake not added; a sweeper will");
      }
    },
    isAlive: (wake) =>
      using(async (opened) => {
        const job = await opened.getJob(wakeJobId(wake));
        return job ? WAITING.has(await job.getState()) : false;
      }),
    pause: () => using((opened) => opened.pause()),
    resume: () => using((opened) => opened.resume()),
    async stop() {
      await queue?.close();
      queue = undefined;
    },
  };
}

type WakeJobs = Queue<Wake, unknown, string>;

function openQueue(redis: RedisClient, keys: Keys): WakeJobs {
  const queue: WakeJobs = new Queue(keys.wakeQueue, {
    connection: redis,
    prefix: keys.bullPrefix,
    skipVersionCheck: true,
    skipWaitingForReady: true,
    streams: { events: { maxLen: EVENTS_KEPT } },
    defaultJobOptions: {
      attempts: 1,
      removeOnComplete: { age: WAKE_DONE_KEPT_MS / 1_000 },
      removeOnFail: { age: WAKE_FAILED_KEPT_MS / 1_000 },
    },
  });
  queue.on("error", () => {});
  return queue;
}
