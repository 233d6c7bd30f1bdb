/**
 * The consumer side of the intake queue: takes tasks that BullMQ clients add as jobs, and those of schedules.
 *
 * Owns: the BullMQ worker that takes the jobs. Its neighbour `service/intake` decides how a job ends.
 *
 * 1. A job of a process that dies, or stops, is taken by another and finds its agent by its request key.
 * 2. A job that waits for its reply takes no slot, neither here nor of a run: this module tells BullMQ that the job was
 *    moved, and renews its lock itself. However many wait, others begin.
 * 3. Data that is too long or too deep to be parsed is not parsed: its job comes with the reason in place of its data.
 * 4. If BullMQ cannot parse a job's options, progress or parent, or its counters are no numbers, the job is taken without them
 *    when its lock has expired; fields that BullMQ reads only at the job's end are removed before. An entry that is no job
 *    leaves the queue.
 * 5. A job is not handed out again and again for what its sender wrote around its data: its wait counts from its first failure,
 *    and if its scheduler's times cannot be read it is refused.
 */
import { isDeepStrictEqual } from "node:util";
import {
  DelayedError,
  getNextMillis,
  type Job,
  type JobSchedulerJobOptions,
  type Processor,
  UnrecoverableError,
  type Worker,
  type WorkerOptions,
} from "bullmq";
import { z } from "zod";
import type { Clock } from "../clock.ts";
import { messageOf, type SubagentError } from "../errors.ts";
import type { Logger } from "../logger.ts";
import { problemLog } from "../problem-log.ts";
import { INTAKE_MAX_BYTES, INTAKE_MAX_CHARS, INTAKE_MAX_VALUES, intakeBytes } from "../protocol/intake.ts";
import type { Keys } from "../protocol/keys.ts";
import { WAKE_FAILED_KEPT_MS } from "../protocol/limits.ts";
import { clip, exceededBound, JSON_MAX_DEPTH } from "../protocol/text.ts";
import type { RedisClient } from "./connection/connection.ts";
import { INTAKE_DONE_KEPT } from "./intake-queue.ts";
import { mayBeOfAJob, removeUnusable, repairActive } from "./intake-repair.ts";
import { QueueWorker } from "./queue-worker.ts";

/** Jobs that one process begins at once. */
const CONCURRENCY = 100;
const LOCK_MS = 10_000;
/** A lock may already be half of {@link LOCK_MS} old when its job begins to wait. */
const RENEW_MS = LOCK_MS / 4;
/** Locks that one script renews; Redis is blocked meanwhile. */
const RENEWED_AT_A_TIME = 500;
/** Data that is too long or too deep to be accepted, but no longer and no deeper than this, is parsed, so that its parent can be told. */
const READ_MAX_BYTES = 3 * INTAKE_MAX_BYTES;
const READ_MAX_DEPTH = 1_000;
const STALLED_CHECK_MS = 5_000;
/** Time limit of a close, after all jobs have ended. */
const CLOSE_MS = 5_000;
/** BullMQ must never fail a job by itself: the job's sub-agent may be running. */
const NEVER = 1_000_000;
const IDLE_POLL_S = 1;

/** A job's wait, stored as its progress. Times are epoch ms. */
const JobWait = z.object({
  /** Its first failure, Redis' clock. */
  since_ms: z.number(),
  /** Time at which its schedule comes due next; the job is retried until the schedule has a later one. */
  until_ms: z.number().optional(),
});

/** See the schema. */
export type JobWait = z.infer<typeof JobWait>;

/** Outcome of a job. */
export type JobEnd =
  | { status: "done"; value: unknown }
  | { status: "refused"; error: SubagentError }
  /** `wait` is stored in the job; absent: what is stored stays. */
  | { status: "later"; delayMs: number; wait?: JobWait }
  /** Another process takes it. */
  | { status: "left" };

/** A job whose reply has come; `taken` is called when the job has stored it. */
export interface RepliedJob {
  status: "replied";
  value: unknown;
  taken: () => void;
}

/** First outcome of a job. `waits`: it waits for its reply; `end` never rejects. */
export type JobStep = JobEnd | { status: "waits"; end: Promise<JobEnd | RepliedJob> };

/** A job as received; its data is unchecked. */
export interface IntakeJob {
  id: string;
  data: unknown;
  /** Reason why the data was not parsed, or the job's recurrence cannot be used. */
  unread?: string;
  /** Absent until an outcome has set it. */
  wait?: JobWait | undefined;
}

/** See the module's header. */
export interface IntakeJobs {
  /** Begins to take jobs; waits for Redis. */
  start(): Promise<void>;
  /** Takes no more jobs; the caller ends running calls of `take`. Resolves when this process holds no job. */
  stop(): Promise<void>;
}

/** Dependencies of an intake queue; `take` never rejects. `concurrency`: jobs begun at once, default {@link CONCURRENCY}. */
export interface IntakeJobsParts {
  take(job: IntakeJob): Promise<JobStep>;
  clock: Clock;
  logger: Logger;
  concurrency?: number;
}

/** Returns the worker of the intake queue on `redis`, not started. */
export function openIntakeJobs(redis: RedisClient, keys: Keys, parts: IntakeJobsParts): IntakeJobs {
  const { take, clock, logger } = parts;
  let isStopping = false;
  const perform = async (job: Job, token = ""): Promise<unknown> => {
    const unread = worker.unread.get(job);
    const step = await take({
      ...{ id: String(job.id), data: job.data, wait: JobWait.safeParse(job.progress).data },
      ...(unread !== undefined && { unread }),
    });
    if (step.status !== "waits") await waiting.end(job, token, step);
    else {
      const ended = waiting.hold(job, token, step.end);
      if (isStopping) await ended;
    }
    // After this error BullMQ leaves the job alone, and takes another in its place.
    throw new DelayedError();
  };
  const worker = openWorker(redis, keys, perform, parts);
  const waiting = new WaitingJobs(worker, redis, parts);
  return {
    async start() {
      worker
        .run()
        .catch((error: unknown) => logger.warn({ problem: messageOf(error) }, "Intake queue stopped"));
      await worker.waitUntilReady();
    },
    async stop() {
      // Closing waits for active jobs, and can be forced only before it has begun to wait.
      const isAway = redis.status !== "ready";
      isStopping = true;
      if (!isAway) {
        await worker.pause(true).catch(() => {});
        await waiting.allEnded();
      }
      await worker.closeWithin(clock, CLOSE_MS, isAway);
      waiting.stop();
    },
  };
}

/** The ends of jobs, and those that wait for their replies. */
class WaitingJobs {
  readonly #worker: Worker;
  readonly #redis: RedisClient;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #jobs = new Map<Job, { token: string; ended: Promise<void> }>();
  readonly #stopped = new AbortController();
  #isRenewing = false;

  constructor(
    worker: Worker,
    redis: RedisClient,
    { clock, logger }: Pick<IntakeJobsParts, "clock" | "logger">,
  ) {
    this.#worker = worker;
    this.#redis = redis;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Renews the job's lock until `end`, then ends the job; resolves when that is done. */
  hold(job: Job, token: string, end: Promise<JobEnd | RepliedJob>): Promise<void> {
    const ended = end.then((known) => this.end(job, token, known)).finally(() => this.#jobs.delete(job));
    this.#jobs.set(job, { token, ended });
    if (!this.#isRenewing) void this.#renew();
    return ended;
  }

  async allEnded(): Promise<void> {
    await Promise.all([...this.#jobs.values()].map(({ ended }) => ended));
  }

  /** Stops renewing. */
  stop(): void {
    this.#stopped.abort();
  }

  /** Ends the job; never rejects. BullMQ would fail a job whose end Redis refuses once. */
  async end(job: Job, token: string, end: JobEnd | RepliedJob): Promise<void> {
    try {
      if (isFinal(end)) await removeUnusable(this.#redis, this.#worker.toKey(String(job.id)));
      await endJob(job, end, this.#clock, token);
    } catch (error) {
      const state = await job.getState().catch(() => "unknown");
      // The command was sent twice, because its first answer was lost.
      if (state === "completed" && end.status === "replied") return end.taken();
      if (state !== "active" && state !== "unknown") return;
      // Its lock expires, and the next process finds the same agent.
      const problem = messageOf(error);
      this.#logger.warn({ job: job.id, problem }, "An intake job was not ended; it is taken again");
    }
  }

  async #renew(): Promise<void> {
    this.#isRenewing = true;
    while (this.#jobs.size > 0 && !this.#stopped.signal.aborted) {
      const held = [...this.#jobs].map(([{ id }, { token }]) => ({ id: String(id), token }));
      for (let from = 0; from < held.length; from += RENEWED_AT_A_TIME) {
        const some = held.slice(from, from + RENEWED_AT_A_TIME);
        const [ids, tokens] = [some.map(({ id }) => id), some.map(({ token }) => token)];
        // A job whose lock was not renewed is taken again.
        await this.#worker.extendJobLocks(ids, tokens, LOCK_MS).catch(() => []);
      }
      await this.#clock.sleep(RENEW_MS, this.#stopped.signal);
    }
    this.#isRenewing = false;
  }
}

/** Returns whether the job gets no further outcome. */
function isFinal({ status }: JobEnd | RepliedJob): boolean {
  return status !== "later" && status !== "left";
}

/** Ends an active job, which BullMQ believes moved. */
async function endJob(job: Job, end: JobEnd | RepliedJob, clock: Clock, token: string): Promise<void> {
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
  // If this fails, the job is only retried longer.
  if (end.wait && !isDeepStrictEqual(end.wait, job.progress))
    await job.updateProgress(end.wait).catch(() => {});
  await job.moveToDelayed(clock.now() + end.delayMs, token);
}

/**
 * BullMQ worker that checks a job's data before BullMQ parses it. Otherwise a job with invalid JSON would be taken again and
 * again. Data that is too long, too deep or too wide would block the thread and fill its memory.
 */
class IntakeWorker extends QueueWorker<unknown, unknown> {
  /** Reason why the data of a job was not parsed, or its recurrence cannot be used. */
  readonly unread = new WeakMap<Job, string>();
  readonly #clock: Clock;

  constructor(queue: string, perform: Processor, options: WorkerOptions, clock: Clock) {
    super(queue, perform, options);
    this.#clock = clock;
  }

  protected override createJob(json: JobJson, id: string): Job {
    const why = whyUnread(json.data);
    const job = this.#made(why === undefined ? json : { ...json, data: "null" }, id);
    const whyNot = whyNotRepeated(job, this.#clock.now());
    // BullMQ would first plan the next job, fail, and hand this one out again and again.
    if (whyNot !== undefined) delete job.repeatJobKey;
    const unread = why ?? whyNot;
    if (unread !== undefined) this.unread.set(job, unread);
    return job;
  }

  #made(json: JobJson, id: string): Job {
    try {
      return super.createJob(json, id);
    } catch {
      return super.createJob({ ...json, data: "null" }, id);
    }
  }
}

type JobJson = Parameters<Worker["createJob"]>[0];

/**
 * Returns why BullMQ cannot plan the next job of a job's scheduler; undefined if it can, or there is none. Finds each reason
 * for which BullMQ would throw before it asks Redis.
 */
function whyNotRepeated({ repeatJobKey, opts }: Job, nowMs: number): string | undefined {
  if (repeatJobKey === undefined) return undefined;
  const { repeat, prevMillis = 0 }: JobSchedulerJobOptions = opts;
  if (!repeat?.pattern && !repeat?.every) return "it has no times of its scheduler";
  if (repeat.immediately && repeat.startDate) return "its scheduler begins both at once and at a time";
  if ("debounce" in opts) return "its scheduler has the option debounce, which BullMQ has no more";
  try {
    getNextMillis(Math.max(nowMs, prevMillis), repeat);
    return undefined;
  } catch (error) {
    return `its scheduler has no times that can be read (${clip(messageOf(error), 100)})`;
  }
}

function whyUnread(data: string): string | undefined {
  if (data.length > INTAKE_MAX_CHARS || intakeBytes(data) > READ_MAX_BYTES)
    return `it has more than ${INTAKE_MAX_BYTES} bytes`;
  switch (exceededBound(data, { levels: READ_MAX_DEPTH, values: INTAKE_MAX_VALUES })) {
    case "levels":
      return `it nests deeper than ${JSON_MAX_DEPTH} levels`;
    case "values":
      return `it has more than ${INTAKE_MAX_VALUES} values`;
    case undefined:
      return undefined;
  }
}

function openWorker(
  redis: RedisClient,
  keys: Keys,
  perform: (job: Job, token?: string) => Promise<unknown>,
  { clock, logger, concurrency = CONCURRENCY }: IntakeJobsParts,
): IntakeWorker {
  const options = {
    connection: redis,
    prefix: keys.bullPrefix,
    concurrency,
    lockDuration: LOCK_MS,
    stalledInterval: STALLED_CHECK_MS,
    maxStalledCount: NEVER,
    drainDelay: IDLE_POLL_S,
    removeOnComplete: { age: WAKE_FAILED_KEPT_MS / 1_000, count: INTAKE_DONE_KEPT },
    removeOnFail: { age: WAKE_FAILED_KEPT_MS / 1_000, count: INTAKE_DONE_KEPT },
    autorun: false,
  };
  const worker = new IntakeWorker(keys.intakeQueue, perform, options, clock);
  const trouble = problemLog(logger, "Intake queue trouble; trying again");
  let isRepairing = false;
  worker.on("error", (error) => {
    trouble.tell(error.message);
    if (isRepairing || !mayBeOfAJob(error)) return;
    isRepairing = true;
    repairActive(redis, (name) => worker.toKey(name))
      .catch((failure: unknown) => trouble.tell(messageOf(failure)))
      .finally(() => {
        isRepairing = false;
      });
  });
  worker.on("active", trouble.over);
  return worker;
}
