/**
 * The pool: the BullMQ worker that takes wakes and runs the agents they name, side by side.
 * Owns how many runs are active in this process and how they stop; each run owns its agent (`run.ts`).
 *
 * 1. A wake completes, or returns to the queue because another process may do more for its agent. A wake that completes
 *    without a run loses nothing: the record still has the work, and a sweeper wakes the agent again.
 * 2. Only a run that settled `failed`, and a job that is no wake, is a failed job in the queue.
 * 3. After `stop` no run of this process holds an agent: each was settled, released, or lost to another worker. `stop` waits
 *    for no tool and no hook. A run whose Redis does not answer is left behind; another worker claims it when its lease
 *    expires.
 */

import { DelayedError, type Job, WaitingError } from "bullmq";
import { type Clock, within } from "../shared/clock.ts";
import { messageOf, SubagentError } from "../shared/errors.ts";
import { problemLog } from "../shared/problem-log.ts";
import type { AgentAddress, Keys } from "../shared/protocol/keys.ts";
import { isNewerWake, Wake } from "../shared/protocol/worker.ts";
import { closeRedis, type RedisClient } from "../shared/redis/connection/connection.ts";
import { QueueWorker } from "../shared/redis/queue-worker.ts";
import { WAKES_KEPT } from "../shared/redis/wake-queue.ts";
import { onAbort } from "../shared/stop-signal.ts";
import {
  createIsolationProcesses,
  type IsolationProcesses,
  type IsolationProgram,
} from "./isolation-processes.ts";
import type { Metrics } from "./observe/metrics.ts";
import { returnWake, type TakenWake } from "./run/claim.ts";
import type { RunContext, RunOutcome, SharedContext } from "./run/context.ts";
import { run } from "./run/run.ts";
import { createRunSlots } from "./run-slots.ts";
import { createWakeLine, type WakeLine } from "./wake-line.ts";

const LOCK_MS = 10_000;
const STALLED_CHECK_MS = 5_000;
/** An idle worker polls this often, because the queue's notification may have gone to a frozen or disconnected worker. */
const IDLE_POLL_S = 1;
/** BullMQ must never fail a wake by itself: the records decide. */
const UNLIMITED_STALLS = 1_000_000;
/** Default time for steps to finish after `stop`; then they are aborted. */
export const DRAIN_GRACE_MS = 10_000;
/** Time without taking wakes after Redis rejected a command. */
const REFUSED_PAUSE_MS = 1_000;
/** Time for which a worker takes no new wake after it returned one, so that another worker gets it first. */
const RETURN_DELAY_MS = 25;
/** Average delay of a suspect for which no slot in isolation was free. */
const ISOLATION_DELAY_MS = 500;
/** Reasons, for people, why no wakes are taken for a while. */
const REFUSED = "Redis has refused something";
const ALONE = "a run in which two workers crashed runs alone in this process";
/** Time after the steps are aborted; then a run whose Redis does not answer is left behind. */
const ABANDON_MS = 5_000;
/** Longest time in a row for which a stopping process waits for an unavailable Redis; other workers claim its runs later. */
const AWAY_MS = 3_000;
const REDIS_POLL_MS = 100;
/** Timeout for closing BullMQ's worker; tried once with Redis, once without. */
const CLOSE_MS = 2_000;

/** Return value of a wake's job: how the run ended, or why there was none. */
type WakeResult = { status: string; stop_reason?: string; turns?: number; because?: string };

/** See the module's header. */
export interface Pool {
  /** Begins to take wakes. Idempotent; does nothing after `stop`. */
  start(): Promise<void>;
  /**
   * Takes no more wakes and releases or finishes every run. Resolves when no run is left, at most the grace and 9 s later.
   * Closes the connection of a Redis that does not answer in that time. Idempotent.
   */
  stop(): Promise<void>;
  /** The uids of the agents running in this process. */
  active(): string[];
  /** Reasons why no wakes are taken although they should be; empty if they are taken. */
  troubles(): string[];
}

/** Dependencies of a pool besides the context that its runs share. */
export interface PoolOptions {
  redis: RedisClient;
  keys: Keys;
  metrics: Metrics | undefined;
  concurrency: number;
  /** Time that steps may continue after `stop`, ms. */
  drainGraceMs: number;
  draining: AbortController;
  abandoned: AbortController;
  /** Program that runs suspects in separate processes; absent: each runs alone in this process. */
  isolation?: IsolationProgram | undefined;
}

/** Creates a pool, not started. */
export function createPool(shared: SharedContext, options: PoolOptions): Pool {
  const { clock, logger } = shared;
  const runs = new Set<Promise<unknown>>();
  let worker: WakeWorker | undefined;
  let waiting: { status: string } | undefined;
  let stopped: Promise<void> | undefined;
  const reasons = createPauseReasons(clock, {
    pause: () => void worker?.pause(true),
    resume: () => worker?.resume(),
  });
  const processes = processesOf(shared, options);
  const context = runContextOf(shared, reasons, processes);
  const line = createWakeLine(clock);
  // While Redis is unavailable both connections of the queue fail repeatedly.
  const trouble = problemLog(logger, "Wake queue trouble; trying again");
  const onError = (error: Error) => {
    trouble.tell(error.message);
    // Without the pause, BullMQ would ask a Redis that refuses to hand out a job again and again.
    if (error.name === "ReplyError" && !stopped) reasons.pauseFor(REFUSED, REFUSED_PAUSE_MS);
  };
  const take = async (job: WakeJob, token?: string): Promise<WakeResult> => {
    trouble.over();
    const going = handleWake(context, job, processes);
    runs.add(going);
    const end = await going.finally(() => runs.delete(going));
    options.metrics?.wake(end.status);
    return end.status === "returned"
      ? returnJob(context, job, token, returnDelayOf(end, line))
      : resultOf(job.data.uid, end);
  };
  return {
    active: () => [...context.leases.held.keys(), ...(processes?.active() ?? [])],
    troubles: () => troublesOf(reasons, worker, waiting),
    async start() {
      if (worker || stopped) return;
      context.provider.start();
      worker = openWorker(options, take);
      worker.on("error", onError).on("ready", trouble.over);
      waiting = await consume(worker, logger);
    },
    stop() {
      reasons.stop();
      stopped ??= drain(clock, options, runs, worker).finally(() => {
        processes?.stop();
        stopTimers(context);
      });
      return stopped;
    },
  };
}

/** Starts to take wakes; resolves to the connection that waits for them. */
async function consume(
  worker: WakeWorker,
  logger: RunContext["logger"],
): Promise<{ status: string } | undefined> {
  worker.run().catch((error: unknown) => logger.warn({ problem: messageOf(error) }, "Wake queue stopped"));
  await worker.waitUntilReady();
  return worker.getBackend().blockingClient;
}

/** Creates the processes for suspects if the worker may start any; they are drained with the worker. */
function processesOf(
  shared: SharedContext,
  { isolation, ...options }: PoolOptions,
): IsolationProcesses | undefined {
  if (!isolation) return undefined;
  const processes = createIsolationProcesses(shared, isolation, options);
  onAbort(shared.draining, () => processes.drain());
  return processes;
}

function runContextOf(
  shared: SharedContext,
  reasons: PauseReasons,
  processes: IsolationProcesses | undefined,
): RunContext {
  const { clock, draining } = shared;
  const pause = () => reasons.pause(ALONE);
  const resume = () => reasons.resume(ALONE);
  return {
    ...shared,
    slots: createRunSlots({ clock, draining, pause, resume }),
    get suspects() {
      if (!processes?.isUsable) return "in_this_process";
      return processes.hasRoom ? "in_another_process" : "no_room";
    },
  };
}

function stopTimers({ provider, toolTimers }: RunContext): void {
  provider.stop();
  toolTimers.stop();
}

type WakeWorker = QueueWorker<Wake, WakeResult>;
type WakeJob = Job<Wake, WakeResult>;

/** `waiting` is the connection that waits for wakes. */
function troublesOf(
  { held }: PauseReasons,
  worker: WakeWorker | undefined,
  waiting: { status: string } | undefined,
): string[] {
  if (held.length > 0) return held.map((why) => `no wakes are taken: ${why}`);
  if (!worker?.isRunning()) return ["no wakes are taken"];
  return waiting?.status === "ready" ? [] : ["Redis does not answer where wakes are waited for"];
}

function openWorker(
  { redis, keys, concurrency }: PoolOptions,
  take: (job: WakeJob, token?: string) => Promise<WakeResult>,
): WakeWorker {
  return new QueueWorker<Wake, WakeResult>(keys.wakeQueue, take, {
    connection: redis,
    prefix: keys.bullPrefix,
    concurrency,
    lockDuration: LOCK_MS,
    stalledInterval: STALLED_CHECK_MS,
    maxStalledCount: UNLIMITED_STALLS,
    drainDelay: IDLE_POLL_S,
    ...WAKES_KEPT,
    autorun: false,
  });
}

/** End of a wake; for a run that needs isolation, the end of its isolated run. */
type WakeEnd = Exclude<RunOutcome, { status: "isolate" }>;

async function handleWake(
  context: RunContext,
  { data, attemptsStarted: timesTaken }: WakeJob,
  processes: IsolationProcesses | undefined,
): Promise<WakeEnd> {
  // A poll in progress when the worker was paused may still deliver one job.
  if (context.draining.aborted) return { status: "returned", reason: "drain", delayMs: 0 };
  const going = isNewerWake(data)
    ? returnWake(context, "newer", timesTaken)
    : runOrIsolate(context, { timesTaken, ...parseWake(data) }, processes);
  return going.catch((error: unknown): WakeEnd => {
    context.logger.error(
      { problem: messageOf(error), wake: data },
      "Wake left behind; a sweeper will wake again",
    );
    return { status: "lost" };
  });
}

async function runOrIsolate(
  context: RunContext,
  taken: TakenWake,
  processes: IsolationProcesses | undefined,
): Promise<WakeEnd> {
  const { uid } = taken.address;
  const delayMs = ISOLATION_DELAY_MS * (0.5 + context.random());
  const later: WakeEnd = { status: "returned", reason: "isolation", delayMs };
  if (processes?.awaits(uid)) return later;
  const end = await run(context, taken);
  if (end.status !== "isolate") return end;
  const isolated = processes?.run(taken, end.isolatedCrashes);
  if (isolated)
    context.logger.warn({ uid }, "Workers crashed with this run, it may be why: it runs in isolation");
  return isolated ?? later;
}

/** Parses the data of a job: the agent and the number of its wake. Throws `protocol_violation` for another program's job. */
function parseWake(data: unknown): { address: AgentAddress; wake: number } {
  const parsed = Wake.safeParse(data);
  if (!parsed.success)
    throw new SubagentError("protocol_violation", "This job names no run of an agent. Remove it.");
  const { tenant, parent_id: parentId, uid, wake } = parsed.data;
  return { address: { tenant, parentId, uid }, wake };
}

/** Returns the delay of a returned wake, ms; the line may only lengthen that of a wake that all live workers have returned. */
function returnDelayOf(
  { delayMs, workers }: Extract<WakeEnd, { status: "returned" }>,
  line: WakeLine,
): number {
  return workers === undefined ? delayMs : line(delayMs, workers);
}

/** Returns a wake to the queue, for another process or with a delay. Always throws, as BullMQ requires. */
async function returnJob(
  { clock, logger }: RunContext,
  job: WakeJob,
  token: string | undefined,
  delayMs: number,
): Promise<never> {
  const back = delayMs > 0 ? job.moveToDelayed(clock.now() + delayMs, token) : job.moveToWait(token);
  // BullMQ soon finds a job stalled that could not be moved.
  await back.catch((error: unknown) =>
    logger.warn({ job: job.id, problem: messageOf(error) }, "Wake not returned"),
  );
  // BullMQ fetches the next job as soon as this one is returned, ahead of the worker that was woken for it.
  if (delayMs === 0) await clock.sleep(RETURN_DELAY_MS);
  throw delayMs > 0 ? new DelayedError() : new WaitingError();
}

async function drain(
  clock: Clock,
  { redis, drainGraceMs, draining, abandoned }: PoolOptions,
  runs: ReadonlySet<Promise<unknown>>,
  worker: WakeWorker | undefined,
): Promise<void> {
  const everyRun = async () => {
    while (runs.size > 0) await Promise.allSettled([...runs]);
  };
  // Pauses before any run is released, or this process would take it back. `close()` comes later, because it cannot be
  // forced once it has begun to wait.
  if (worker) await within(clock, CLOSE_MS, worker.pause(true));
  draining.abort();
  const over = new AbortController();
  const everyRunOrAway = Promise.race([everyRun(), whenAway(clock, { redis }, over.signal)]);
  await within(clock, drainGraceMs, everyRunOrAway);
  if (runs.size > 0) {
    abandoned.abort();
    await within(clock, ABANDON_MS, everyRunOrAway);
  }
  over.abort();
  // No run gets an answer any more: closing the connection rejects their pending commands, and they end.
  if (runs.size > 0 && redis.status !== "ready") closeRedis(redis);
  // If Redis still does not answer, the worker closes its connection next.
  await worker?.closeWithin(clock, CLOSE_MS, redis.status !== "ready");
}

/** Resolves when Redis has been unavailable for {@link AWAY_MS} in a row, or when `signal` aborts. */
async function whenAway(
  clock: Clock,
  { redis }: Pick<PoolOptions, "redis">,
  signal: AbortSignal,
): Promise<void> {
  let sinceMs: number | undefined;
  while (!signal.aborted) {
    const nowMs = clock.monotonicMs();
    sinceMs = redis.status === "ready" ? undefined : (sinceMs ?? nowMs);
    if (sinceMs !== undefined && nowMs - sinceMs >= AWAY_MS) return;
    await clock.sleep(REDIS_POLL_MS, signal);
  }
}

/** Returns the job's return value; throws for a failed run, so that BullMQ marks the job as failed. */
function resultOf(uid: string, end: Exclude<WakeEnd, { status: "returned" }>): WakeResult {
  if (end.status === "settled") {
    if (end.reply.status === "failed") {
      throw new SubagentError("run_failed", `The run ended as failed: ${end.reply.stop_reason}.`, {
        uid,
        ...end.reply,
      });
    }
    return end.reply;
  }
  return end.status === "lost" ? { status: "lost" } : { status: end.status, because: end.reason };
}

/** Reasons why no wakes are taken. Consuming is paused while at least one reason holds; reasons are independent. */
export interface PauseReasons {
  /** Pauses for this reason. Idempotent. */
  pause(why: string): void;
  /** Pauses for this reason for `ms`; calling again extends it. */
  pauseFor(why: string, ms: number): void;
  /** Removes the reason; removing the last one resumes consuming. Idempotent. */
  resume(why: string): void;
  /** The reasons that hold, oldest first. */
  readonly held: readonly string[];
  /** Never resumes consuming again, even if all reasons are removed. Idempotent. */
  stop(): void;
}

/** Creates an empty set of reasons; calls `pause` with the first reason and `resume` when none is left. */
export function createPauseReasons(
  clock: Clock,
  { pause, resume }: { pause(): void; resume(): void },
): PauseReasons {
  const held = new Set<string>();
  const timers = new Map<string, { cancel(): void }>();
  let isStopped = false;
  const reasons: PauseReasons = {
    pause(why) {
      const isFirst = held.size === 0;
      held.add(why);
      if (isFirst) pause();
    },
    resume(why) {
      if (held.delete(why) && held.size === 0 && !isStopped) resume();
    },
    pauseFor(why, ms) {
      reasons.pause(why);
      timers.get(why)?.cancel();
      timers.set(
        why,
        clock.timeout(ms, () => reasons.resume(why)),
      );
    },
    get held() {
      return [...held];
    },
    stop() {
      isStopped = true;
      for (const timer of timers.values()) timer.cancel();
      timers.clear();
    },
  };
  return reasons;
}
