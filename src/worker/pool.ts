/**
 * The pool: the BullMQ worker that takes wakes and runs the agents they name, side by side.
 * Owns how many runs go on in this process and how they stop; each run owns its agent (`run.ts`).
 *
 * 1. A wake completes, or goes back into the queue because another process may do more for its agent. What could not be
 *    done now stands in the record, and a sweeper wakes again.
 * 2. Only a run that settled `failed` stands as failed in the queue.
 * 3. After `stop` no run of this process holds an agent: each was settled, released, or lost to another worker. It waits for no
 *    tool and no hook. A run whose Redis does not answer is left behind, and another worker claims it when its lease is over.
 */

import { DelayedError, type Job, WaitingError, Worker } from "bullmq";
import { type Clock, within } from "../shared/clock.ts";
import { messageOf, SubagentError } from "../shared/errors.ts";
import type { AgentAddress, Keys } from "../shared/protocol/keys.ts";
import { isNewerWake, Wake } from "../shared/protocol/worker.ts";
import { closeRedis, type RedisClient } from "../shared/redis/connection/connection.ts";
import { WAKES_KEPT } from "../shared/redis/wake-queue.ts";
import { onAbort } from "../shared/stop-signal.ts";
import {
  createIsolationProcesses,
  type IsolationProcesses,
  type IsolationProgram,
} from "./isolation-processes.ts";
import { returnWake, type TakenWake } from "./run/claim.ts";
import type { RunContext, RunOutcome } from "./run/context.ts";
import { run } from "./run/run.ts";
import { createRunSlots } from "./run-slots.ts";

const LOCK_MS = 10_000;
const STALLED_CHECK_MS = 5_000;
/** An idle worker looks so often without being told: what told it may have gone to one that is frozen or cut off. */
const IDLE_LOOK_S = 1;
/** BullMQ must never fail a wake by itself: records decide. */
const UNLIMITED_STALLS = 1_000_000;
/** A stopping process lets steps finish this long, unless told otherwise, then cuts them off. */
export const DRAIN_GRACE_MS = 10_000;
/** So long no wake is taken from a Redis that refused something. */
const REST_MS = 1_000;
/** So long a worker that put a wake back takes nothing in its place, for another to be first. */
const YIELD_MS = 25;
/** About so long a suspect rests for which no place in isolation was free. */
const ISOLATION_REST_MS = 500;
/** Why no wakes are taken for a while, for people. */
const REFUSED = "Redis has refused something";
const ALONE = "a run that two workers did not survive has the process to itself";
/** After that, a run whose Redis does not answer is left behind. */
const ABANDON_MS = 5_000;
/** While the process stops it waits this long in a row for a Redis that is away; other workers claim its runs later. */
const AWAY_MS = 3_000;
const AWAY_LOOK_MS = 100;
/** Timeout for closing BullMQ's worker; tried once with Redis, once without. */
const CLOSE_MS = 2_000;

/** What a wake's job returns: how the run ended, or why there was none. */
type WakeResult = { status: string; stop_reason?: string; turns?: number; because?: string };

/** See the module's header. */
export interface Pool {
  /** Begins to take wakes. Idempotent; does nothing after `stop`. */
  start(): Promise<void>;
  /**
   * Takes no more wakes, releases or finishes every run; resolves when none is left, at most the grace and 9 s later. A Redis
   * that does not answer in that time has its connection closed. Idempotent.
   */
  stop(): Promise<void>;
  /** The uids of the agents running here. */
  active(): string[];
  /** Why no wakes are taken, while they should be; empty when they are. */
  troubles(): string[];
}

/** What a pool needs besides what it lends to its runs. */
export interface PoolOptions {
  redis: RedisClient;
  keys: Keys;
  concurrency: number;
  /** How long steps may go on after `stop`, ms. */
  drainGraceMs: number;
  draining: AbortController;
  abandoned: AbortController;
  /** What runs suspects in a process of their own; absent: they run alone in this one. */
  isolation?: IsolationProgram | undefined;
}

/** A pool, not started. */
export function createPool(lent: Omit<RunContext, "slots" | "suspects">, options: PoolOptions): Pool {
  const { clock, logger } = lent;
  const runs = new Set<Promise<unknown>>();
  let worker: WakeWorker | undefined;
  let waiting: { status: string } | undefined;
  let stopped: Promise<void> | undefined;
  const reasons = createPauseReasons(clock, {
    pause: () => void worker?.pause(true),
    resume: () => worker?.resume(),
  });
  const processes = processesOf(lent, options);
  const context = withIsolation(lent, reasons, processes);
  const trouble = tellOnce(logger);
  const onError = (error: Error) => {
    trouble.tell(error.message);
    // A Redis that refuses to hand out a job would be asked again at once, for ever.
    if (error.name === "ReplyError" && !stopped) reasons.pauseFor(REFUSED, REST_MS);
  };
  const take = async (job: WakeJob, token?: string): Promise<WakeResult> => {
    trouble.over();
    const going = handleWake(context, job, processes);
    runs.add(going);
    const end = await going.finally(() => runs.delete(going));
    context.observer.metrics?.wake(end.status);
    return end.status === "returned"
      ? returnJob(context, job, token, end.delayMs)
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

/** Resolves to the connection on which wakes are waited for. */
async function consume(
  worker: WakeWorker,
  logger: RunContext["logger"],
): Promise<{ status: string } | undefined> {
  worker.run().catch((error: unknown) => logger.warn({ problem: messageOf(error) }, "Wake queue stopped"));
  await worker.waitUntilReady();
  return worker.getBackend().blockingClient;
}

/** Where suspects run, if the worker may start processes; they are drained with it. */
function processesOf(
  lent: Omit<RunContext, "slots" | "suspects">,
  { isolation, ...options }: PoolOptions,
): IsolationProcesses | undefined {
  if (!isolation) return undefined;
  const processes = createIsolationProcesses(lent, isolation, options);
  onAbort(lent.draining, () => processes.drain());
  return processes;
}

function withIsolation(
  lent: Omit<RunContext, "slots" | "suspects">,
  reasons: PauseReasons,
  processes: IsolationProcesses | undefined,
): RunContext {
  const { clock, draining } = lent;
  const close = () => reasons.pause(ALONE);
  const open = () => reasons.resume(ALONE);
  return {
    ...lent,
    slots: createRunSlots({ clock, draining, close, open }),
    get suspects() {
      if (!processes?.isUsable) return "here";
      return processes.hasRoom ? "elsewhere" : "crowded";
    },
  };
}

function stopTimers({ provider, toolTimers }: RunContext): void {
  provider.stop();
  toolTimers.stop();
}

type WakeWorker = Worker<Wake, WakeResult>;
type WakeJob = Job<Wake, WakeResult>;

/** `waiting` is the connection on which wakes are waited for. */
function troublesOf(
  { held }: PauseReasons,
  worker: WakeWorker | undefined,
  waiting: { status: string } | undefined,
): string[] {
  if (held.length > 0) return held.map((why) => `no wakes are taken: ${why}`);
  if (!worker?.isRunning()) return ["no wakes are taken"];
  return waiting?.status === "ready" ? [] : ["Redis does not answer where wakes are waited for"];
}

/** Tells a problem once until it is over: both of the queue's connections fail, again and again, while Redis is away. */
function tellOnce(logger: RunContext["logger"]): { tell(problem: string): void; over(): void } {
  let told = "";
  return {
    tell(problem) {
      if (problem !== told) logger.warn({ problem }, "Wake queue trouble; trying again");
      told = problem;
    },
    over() {
      told = "";
    },
  };
}

function openWorker(
  { redis, keys, concurrency }: PoolOptions,
  take: (job: WakeJob, token?: string) => Promise<WakeResult>,
): WakeWorker {
  return new Worker<Wake, WakeResult>(keys.wakeQueue, take, {
    connection: redis,
    prefix: keys.bullPrefix,
    concurrency,
    lockDuration: LOCK_MS,
    stalledInterval: STALLED_CHECK_MS,
    maxStalledCount: UNLIMITED_STALLS,
    drainDelay: IDLE_LOOK_S,
    ...WAKES_KEPT,
    autorun: false,
  });
}

/** How a wake ended; one whose run needs isolation is followed to the end of that. */
type WakeEnd = Exclude<RunOutcome, { status: "isolate" }>;

async function handleWake(
  context: RunContext,
  { data, attemptsStarted: timesTaken }: WakeJob,
  processes: IsolationProcesses | undefined,
): Promise<WakeEnd> {
  // A look that was under way when the worker was paused brings one job all the same.
  if (context.draining.aborted) return { status: "returned", because: "drain", delayMs: 0 };
  const going = isNewerWake(data)
    ? returnWake(context, "newer", timesTaken)
    : runOrIsolate(context, { timesTaken, ...namedBy(Wake.parse(data)) }, processes);
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
  const delayMs = ISOLATION_REST_MS * (0.5 + context.random());
  const later: WakeEnd = { status: "returned", because: "isolation", delayMs };
  if (processes?.awaits(uid)) return later;
  const end = await run(context, taken);
  if (end.status !== "isolate") return end;
  const isolated = processes?.run(taken, end.isolatedCrashes);
  if (isolated)
    context.logger.warn({ uid }, "Workers crashed with this run, it may be why: it runs in isolation");
  return isolated ?? later;
}

function namedBy({ tenant, parent_id: parentId, uid, wake }: Wake): { address: AgentAddress; wake: number } {
  return { address: { tenant, parentId, uid }, wake };
}

/** Puts a wake back into the queue, for another process or for later. Always throws, as BullMQ wants it. */
async function returnJob(
  { clock, logger }: RunContext,
  job: WakeJob,
  token: string | undefined,
  delayMs: number,
): Promise<never> {
  const back = delayMs > 0 ? job.moveToDelayed(clock.now() + delayMs, token) : job.moveToWait(token);
  // A job that could not be moved is found stalled before long.
  await back.catch((error: unknown) =>
    logger.warn({ job: job.id, problem: messageOf(error) }, "Wake not returned"),
  );
  // BullMQ asks for the next job the moment this one is off its hands, ahead of the worker that was woken for it.
  if (delayMs === 0) await clock.sleep(YIELD_MS);
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
  // Before anything is released, or this process would take it back. Not `close()` yet: it cannot be forced any more
  // once it has begun to wait.
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
  // No run gets an answer any more; what they wait for rejects, and they end.
  if (runs.size > 0 && redis.status !== "ready") closeRedis(redis);
  const closing = worker?.close(redis.status !== "ready").catch(() => {});
  // A Redis that does not answer even now: the worker closes its connection next.
  if (closing) await within(clock, CLOSE_MS, closing);
}

/** Resolves when Redis has been away for {@link AWAY_MS} in a row, or with `signal`. */
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
    await clock.sleep(AWAY_LOOK_MS, signal);
  }
}

/** The job's return value; a failed run is thrown, so that it stands as failed. */
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
  if (end.status === "passed") return { status: "passed", because: end.because };
  if (end.status === "released") return { status: "released", because: end.reason };
  return { status: end.status };
}

/** Why no wakes are taken: consuming is paused while at least one reason holds; each comes and goes on its own. */
export interface PauseReasons {
  /** Pauses for this reason. Idempotent. */
  pause(why: string): void;
  /** Pauses for this reason for `ms`; calling again extends it. */
  pauseFor(why: string, ms: number): void;
  /** Takes the reason back; with the last one consuming is resumed. Idempotent. */
  resume(why: string): void;
  /** The reasons that hold, oldest first. */
  readonly held: readonly string[];
  /** Nothing is resumed any more, whichever reason is taken back. Idempotent. */
  stop(): void;
}

/** No reasons yet; `pause` is called with the first one, `resume` when none is left. */
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
