/**
 * The intake queue from the side that takes: tasks that any of BullMQ's clients adds as jobs, and those of schedules.
 *
 * Owns: the BullMQ worker that takes the jobs. Its neighbour `service/intake` says what becomes of one.
 *
 * 1. A job of a process that dies, or stops, is taken by another and finds its agent by its request key.
 *
 * A job that waits for its reply holds no place of a run: agents run in the pool, here only promises wait.
 */
import { DelayedError, type Job, UnrecoverableError, WaitingError, Worker } from "bullmq";
import type { Clock } from "../clock.ts";
import { messageOf, type SubagentError } from "../errors.ts";
import type { Logger } from "../logger.ts";
import type { Keys } from "../protocol/keys.ts";
import { WAKE_FAILED_KEPT_MS } from "../protocol/limits.ts";
import type { RedisClient } from "./connection/connection.ts";
import { INTAKE_DONE_KEPT } from "./intake-queue.ts";

/** Jobs that wait for their replies in one process, at most; the others wait in the queue. */
const CONCURRENCY = 1_000;
const LOCK_MS = 10_000;
const STALLED_CHECK_MS = 5_000;
/** BullMQ must never fail a job by itself: it may have a sub-agent at work. */
const NEVER = 1_000_000;
const IDLE_LOOK_S = 1;

/** What becomes of a job. */
export type JobEnd =
  /** `taken` is called when the value stands in Redis. */
  | { status: "done"; value: unknown; taken?: () => void }
  | { status: "refused"; error: SubagentError }
  /** `untilMs` comes back with the job. */
  | { status: "later"; delayMs: number; untilMs?: number | undefined }
  /** Another process takes it. */
  | { status: "left" };

/** A job as it came: anything may stand in its data. */
export interface IntakeJob {
  id: string;
  data: unknown;
  /** When it was to be taken at the earliest. */
  dueAtMs: number;
  /** Until when it is worth a try, epoch ms; absent until an end said so. */
  untilMs?: number;
}

/** See the module's header. */
export interface IntakeJobs {
  /** Begins to take jobs; waits for Redis. */
  start(): Promise<void>;
  /** Takes no more; what `take` still does is to be ended by its owner. Resolves when all jobs are off our hands. */
  stop(): Promise<void>;
}

/** The worker of the intake queue on `redis`, not started; `take` never rejects. */
export function openIntakeJobs(
  redis: RedisClient,
  keys: Keys,
  { take, clock, logger }: { take(job: IntakeJob): Promise<JobEnd>; clock: Clock; logger: Logger },
): IntakeJobs {
  const taken = new Map<string, () => void>();
  const perform = async (job: Job, token?: string): Promise<unknown> => {
    const id = String(job.id);
    const end = await take({
      ...{ id, data: job.data, dueAtMs: job.timestamp + (job.opts.delay ?? 0) },
      ...(isTime(job.progress) && { untilMs: job.progress }),
    });
    if (end.status === "done" && end.taken) taken.set(id, end.taken);
    return endJob(job, end, clock, token);
  };
  const worker = openWorker(redis, keys, perform, logger);
  worker.on("completed", ({ id }) => {
    const ack = taken.get(String(id));
    taken.delete(String(id));
    ack?.();
  });
  return {
    async start() {
      worker
        .run()
        .catch((error: unknown) => logger.warn({ problem: messageOf(error) }, "Intake queue stopped"));
      await worker.waitUntilReady();
    },
    async stop() {
      // Closing waits for the jobs in hand, and can be forced only before it has begun to wait.
      const isAway = redis.status !== "ready";
      if (!isAway) await worker.pause(true).catch(() => {});
      await worker.close(isAway).catch(() => {});
    },
  };
}

/** BullMQ's progress of a job is zero until one is noted. */
function isTime(progress: unknown): progress is number {
  return typeof progress === "number" && progress > 0;
}

/** The job's return value, or what BullMQ wants to have thrown where it has none. */
async function endJob(job: Job, end: JobEnd, clock: Clock, token?: string): Promise<unknown> {
  switch (end.status) {
    case "done":
      return end.value;
    case "refused":
      throw new UnrecoverableError(`${end.error.code}: ${messageOf(end.error)}`);
    case "later":
      // Not noted, it is tried longer; thrown, it would fail the job.
      if (end.untilMs !== undefined && end.untilMs !== job.progress)
        await job.updateProgress(end.untilMs).catch(() => {});
      await job.moveToDelayed(clock.now() + end.delayMs, token);
      throw new DelayedError();
    case "left":
      await job.moveToWait(token);
      throw new WaitingError();
  }
}

/** BullMQ reads a job's texts as JSON before anybody sees it, and would take one that is none again and again. */
class IntakeWorker extends Worker {
  protected override createJob(json: Parameters<Worker["createJob"]>[0], id: string): Job {
    try {
      return super.createJob(json, id);
    } catch {
      return super.createJob({ ...json, data: "null" }, id);
    }
  }
}

function openWorker(
  redis: RedisClient,
  keys: Keys,
  perform: (job: Job, token?: string) => Promise<unknown>,
  logger: Logger,
): Worker {
  const worker = new IntakeWorker(keys.intakeQueue, perform, {
    connection: redis,
    prefix: keys.bullPrefix,
    concurrency: CONCURRENCY,
    lockDuration: LOCK_MS,
    stalledInterval: STALLED_CHECK_MS,
    maxStalledCount: NEVER,
    drainDelay: IDLE_LOOK_S,
    removeOnComplete: { age: WAKE_FAILED_KEPT_MS / 1_000, count: INTAKE_DONE_KEPT },
    removeOnFail: { age: WAKE_FAILED_KEPT_MS / 1_000, count: INTAKE_DONE_KEPT },
    autorun: false,
  });
  let reported = "";
  worker.on("error", (error) => {
    if (error.message !== reported)
      logger.warn({ problem: error.message }, "Intake queue trouble; trying again");
    reported = error.message;
  });
  return worker;
}
