/**
 * The intake queue from the side that takes: tasks that any of BullMQ's clients adds as jobs, and those of schedules.
 *
 * Owns: the BullMQ worker that takes the jobs. Its neighbour `service/intake` says what becomes of one.
 *
 * 1. A job of a process that dies, or stops, is taken by another and finds its agent by its request key.
 * 2. A job that waits for its reply holds no place, neither here nor of a run: BullMQ is told that it was moved, and its lock is
 *    renewed here. However many wait, others begin.
 * 3. What is too long or too deep to be parsed is not parsed: its job comes with the reason in place of its data.
 */
import { DelayedError, type Job, UnrecoverableError, WaitingError, Worker } from "bullmq";
import type { Clock } from "../clock.ts";
import { messageOf, type SubagentError } from "../errors.ts";
import type { Logger } from "../logger.ts";
import { INTAKE_MAX_BYTES } from "../protocol/intake.ts";
import type { Keys } from "../protocol/keys.ts";
import { WAKE_FAILED_KEPT_MS } from "../protocol/limits.ts";
import { JSON_MAX_DEPTH } from "../protocol/message.ts";
import { nestsDeeper } from "../protocol/text.ts";
import type { RedisClient } from "./connection/connection.ts";
import { INTAKE_DONE_KEPT } from "./intake-queue.ts";

/** Jobs that one process begins at once. */
const CONCURRENCY = 100;
const LOCK_MS = 10_000;
/** A lock that comes here may be as old as half of {@link LOCK_MS}. */
const RENEW_MS = LOCK_MS / 4;
/** Locks that one script renews: Redis does nothing else meanwhile. */
const RENEWED_AT_A_TIME = 500;
/** Longest text of a job's data: a sender may spell two bytes of UTF-8 in six characters. */
const DATA_MAX_CHARS = 3 * INTAKE_MAX_BYTES;
/** What is too deep to be taken, but not deeper than this, is read: its parent can be told. */
const READ_MAX_DEPTH = 1_000;
const STALLED_CHECK_MS = 5_000;
/** BullMQ must never fail a job by itself: it may have a sub-agent at work. */
const NEVER = 1_000_000;
const IDLE_LOOK_S = 1;

/** What becomes of a job. */
export type JobEnd =
  | { status: "done"; value: unknown }
  | { status: "refused"; error: SubagentError }
  /** `untilMs` comes back with the job. */
  | { status: "later"; delayMs: number; untilMs?: number | undefined }
  /** Another process takes it. */
  | { status: "left" };

/** A job whose reply has come; `taken` is called when it stands in the job. */
export interface RepliedJob {
  status: "replied";
  value: unknown;
  taken: () => void;
}

/** What becomes of a job at once. `waits`: for its reply; `end` never rejects. */
export type JobStep = JobEnd | { status: "waits"; end: Promise<JobEnd | RepliedJob> };

/** A job as it came: anything may stand in its data. */
export interface IntakeJob {
  id: string;
  data: unknown;
  /** Why the data was not read. */
  unread?: string;
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

/** What an intake queue works with; `take` never rejects. `places`: jobs begun at once, default {@link CONCURRENCY}. */
export interface IntakeJobsParts {
  take(job: IntakeJob): Promise<JobStep>;
  clock: Clock;
  logger: Logger;
  places?: number;
}

/** The worker of the intake queue on `redis`, not started. */
export function openIntakeJobs(redis: RedisClient, keys: Keys, parts: IntakeJobsParts): IntakeJobs {
  const { take, clock, logger } = parts;
  let isStopping = false;
  const perform = async (job: Job, token = ""): Promise<unknown> => {
    const unread = worker.unread.get(job);
    const step = await take({
      ...{ id: String(job.id), data: job.data, dueAtMs: job.timestamp + (job.opts.delay ?? 0) },
      ...(unread !== undefined && { unread }),
      ...(isTime(job.progress) && { untilMs: job.progress }),
    });
    if (step.status !== "waits") return endJob(job, step, clock, token);
    const ended = waiting.hold(job, token, step.end);
    if (isStopping) await ended;
    // BullMQ leaves a job alone that says so, and takes another in its place.
    throw new DelayedError();
  };
  const worker = openWorker(redis, keys, perform, parts);
  const waiting = new WaitingJobs(worker, clock, logger);
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
      isStopping = true;
      if (!isAway) {
        await worker.pause(true).catch(() => {});
        await waiting.allEnded();
      }
      await worker.close(isAway).catch(() => {});
      waiting.stop();
    },
  };
}

/** The jobs that wait for their replies. */
class WaitingJobs {
  readonly #worker: Worker;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #jobs = new Map<Job, { token: string; ended: Promise<void> }>();
  readonly #stopped = new AbortController();
  #isRenewing = false;

  constructor(worker: Worker, clock: Clock, logger: Logger) {
    this.#worker = worker;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Keeps the job's lock until `end`, and ends it then; resolves when that is done. */
  hold(job: Job, token: string, end: Promise<JobEnd | RepliedJob>): Promise<void> {
    const ended = this.#end(job, token, end);
    this.#jobs.set(job, { token, ended });
    if (!this.#isRenewing) void this.#renew();
    return ended;
  }

  async allEnded(): Promise<void> {
    await Promise.all([...this.#jobs.values()].map(({ ended }) => ended));
  }

  /** Renews no more. */
  stop(): void {
    this.#stopped.abort();
  }

  async #end(job: Job, token: string, end: Promise<JobEnd | RepliedJob>): Promise<void> {
    try {
      await endWaiting(job, await end, this.#clock, token);
    } catch (error) {
      // Its lock runs out, and the next process finds the same reply.
      const problem = messageOf(error);
      this.#logger.warn({ job: job.id, problem }, "An intake job was not ended; it is taken again");
    } finally {
      this.#jobs.delete(job);
    }
  }

  async #renew(): Promise<void> {
    this.#isRenewing = true;
    while (this.#jobs.size > 0 && !this.#stopped.signal.aborted) {
      const held = [...this.#jobs].map(([{ id }, { token }]) => ({ id: String(id), token }));
      for (let from = 0; from < held.length; from += RENEWED_AT_A_TIME) {
        const some = held.slice(from, from + RENEWED_AT_A_TIME);
        const [ids, tokens] = [some.map(({ id }) => id), some.map(({ token }) => token)];
        // One that was not renewed is taken again.
        await this.#worker.extendJobLocks(ids, tokens, LOCK_MS).catch(() => []);
      }
      await this.#clock.sleep(RENEW_MS, this.#stopped.signal);
    }
    this.#isRenewing = false;
  }
}

/** BullMQ's progress of a job is zero until one is noted. */
function isTime(progress: unknown): progress is number {
  return typeof progress === "number" && progress > 0;
}

/** The job's return value, or what BullMQ wants to have thrown where it has none. */
async function endJob(job: Job, end: JobEnd, clock: Clock, token: string): Promise<unknown> {
  switch (end.status) {
    case "done":
      return end.value;
    case "refused":
      throw failureOf(end);
    case "later":
      await delay(job, end, clock, token);
      throw new DelayedError();
    case "left":
      await job.moveToWait(token);
      throw new WaitingError();
  }
}

/** Ends a job of which BullMQ was told that it was moved. */
async function endWaiting(job: Job, end: JobEnd | RepliedJob, clock: Clock, token: string): Promise<void> {
  switch (end.status) {
    case "replied":
      await job.moveToCompleted(end.value, token, false);
      return end.taken();
    case "done":
      await job.moveToCompleted(end.value, token, false);
      return;
    case "refused":
      await job.moveToFailed(failureOf(end), token, false);
      return;
    case "later":
      return delay(job, end, clock, token);
    case "left":
      await job.moveToWait(token);
  }
}

function failureOf({ error }: JobEnd & { status: "refused" }): UnrecoverableError {
  return new UnrecoverableError(`${error.code}: ${messageOf(error)}`);
}

async function delay(job: Job, end: JobEnd & { status: "later" }, clock: Clock, token: string) {
  // Not noted, it is tried longer; thrown, it would fail the job.
  if (end.untilMs !== undefined && end.untilMs !== job.progress)
    await job.updateProgress(end.untilMs).catch(() => {});
  await job.moveToDelayed(clock.now() + end.delayMs, token);
}

/**
 * BullMQ reads a job's texts as JSON before anybody sees it: what is no JSON would be taken again and again, and what is too long
 * or too deep would take the thread and its memory.
 */
class IntakeWorker extends Worker {
  /** Why the data of a job was not read. */
  readonly unread = new WeakMap<Job, string>();

  protected override createJob(json: Parameters<Worker["createJob"]>[0], id: string): Job {
    const why = whyUnread(json.data);
    try {
      const job = super.createJob(why === undefined ? json : { ...json, data: "null" }, id);
      if (why !== undefined) this.unread.set(job, why);
      return job;
    } catch {
      return super.createJob({ ...json, data: "null" }, id);
    }
  }
}

function whyUnread(data: string): string | undefined {
  if (data.length > DATA_MAX_CHARS) return `it has more than ${INTAKE_MAX_BYTES} bytes`;
  return nestsDeeper(data, READ_MAX_DEPTH) ? `it nests deeper than ${JSON_MAX_DEPTH} levels` : undefined;
}

function openWorker(
  redis: RedisClient,
  keys: Keys,
  perform: (job: Job, token?: string) => Promise<unknown>,
  { logger, places = CONCURRENCY }: IntakeJobsParts,
): IntakeWorker {
  const worker = new IntakeWorker(keys.intakeQueue, perform, {
    connection: redis,
    prefix: keys.bullPrefix,
    concurrency: places,
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
