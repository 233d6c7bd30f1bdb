/**
 * A worker inside a process of suspects. It carries out the runs that its worker (which started the process) sends, and ends
 * with it. It takes no wakes, sweeps nothing, and is in no directory. Owns the parts it is given, and closes them.
 *
 * 1. Its worker knows the epoch of a held run before anything of the run is read.
 * 2. A run that has advanced is no suspect any more: it is handed back between two steps.
 * 3. When the worker is gone, every run is handed back.
 * 4. No run starts before everything a run may use is ready: a process that is killed because it starts too slowly held
 *    none.
 */

import { messageOf } from "../shared/errors.ts";
import { closeRedis, type RedisClient } from "../shared/redis/connection/connection.ts";
import { onAbort } from "../shared/stop-signal.ts";
import type { Readiness } from "./health/readiness.ts";
import type { Watchdog } from "./health/watchdog.ts";
import type { WorkerHints } from "./health/worker-hints.ts";
import { type FromProcess, ToProcess } from "./isolation-messages.ts";
import type { RunMetrics } from "./observe/metrics.ts";
import type { TakenWake } from "./run/claim.ts";
import type { RunContext, RunOutcome, SharedContext } from "./run/context.ts";
import { run } from "./run/run.ts";
import type { RunSlot, RunSlots } from "./run-slots.ts";
import type { McpTools } from "./tools/mcp/tools.ts";

/** Time for aborted calls and tools to report, ms. */
const ABANDON_MS = 5_000;
const READINESS: Readiness = { ready: false, redis: "away", reasons: ["it runs suspects of another worker"] };

/** Parts of an isolated worker, opened and not started. */
export interface IsolatedParts {
  context: Pick<RunContext, "clock" | "provider" | "toolTimers" | "wakes" | "leases">;
  redis: RedisClient;
  hints: WorkerHints;
  /** Heartbeat of the connection. */
  heartbeat: { stop(): void };
  watchdog: Watchdog | undefined;
  runs: IsolatedRuns;
  mcp: Pick<McpTools, "stop">;
  prepare(): Promise<unknown>;
  drainGraceMs: number;
  draining: AbortController;
  abandoned: AbortController;
}

/** Creates a worker, not started. Ends the process by SIGTERM when its worker is gone, because it has no other work. */
export function createIsolatedWorker(id: string, open: () => IsolatedParts) {
  let parts: IsolatedParts | undefined;
  let starting: Promise<void> | undefined;
  let stopping: Promise<void> | undefined;
  const stop = async () => {
    const opened = parts;
    // `end` aborts `draining`, which calls `stop` again: `stopping` must be set before that.
    if (opened) stopping ??= Promise.resolve().then(() => end(opened));
    await stopping;
  };
  const start = async (opened: IsolatedParts) => {
    const leave = async () => {
      await stop();
      process.kill(process.pid, "SIGTERM");
    };
    onAbort(opened.draining.signal, () => void leave());
    opened.runs.listen();
    await opened.prepare();
    opened.context.provider.start();
    opened.watchdog?.start();
    await opened.hints.start();
    opened.runs.start();
  };
  return {
    id,
    start() {
      parts ??= open();
      starting ??= start(parts);
      return starting;
    },
    stop,
    active: () => [...(parts?.context.leases.held.keys() ?? [])],
    readiness: async () => READINESS,
    metrics: async () => undefined,
  };
}

async function end(parts: IsolatedParts): Promise<void> {
  const { context, redis, hints, heartbeat, watchdog, runs, mcp, ...rest } = parts;
  const { clock, provider, toolTimers, wakes } = context;
  const { draining, abandoned, drainGraceMs } = rest;
  const over = new AbortController();
  void runs.over.then(() => over.abort());
  draining.abort();
  await clock.sleep(drainGraceMs, over.signal);
  abandoned.abort();
  await clock.sleep(ABANDON_MS, over.signal);
  provider.stop();
  toolTimers.stop();
  heartbeat.stop();
  closeRedis(redis);
  hints.stop();
  await Promise.all([wakes.stop(), watchdog?.stop(), mcp.stop()]);
}

/** A run as the worker sends it; `id` names it in the message about its end. */
type GivenRun = TakenWake & { id: string };

/** See {@link createIsolatedRuns}. */
export interface IsolatedRuns {
  /** Listens to the worker, and for its end. Runs wait for `start`. */
  listen(): void;
  /** Tells the worker that it takes runs, and starts those that wait. */
  start(): void;
  /** Resolves when the worker is gone or this process must stop, and no run is left. */
  readonly over: Promise<void>;
}

/** Creates the runs of a process of suspects. */
export function createIsolatedRuns(
  shared: Omit<SharedContext, "onHeld">,
  draining: AbortController,
): IsolatedRuns {
  const context: RunContext = {
    ...shared,
    slots: UNTIL_PROVED,
    suspects: "in_this_process",
    onHeld: ({ address, epoch }) => tell({ uid: address.uid, held: { epoch } }),
  };
  const runs = new Set<Promise<void>>();
  let waiting: GivenRun[] | undefined = [];
  const begin = (given: GivenRun) => {
    const going = carryOut(context, given).finally(() => runs.delete(going));
    runs.add(going);
  };
  const over = new Promise<void>((resolve) => {
    const settled = async () => {
      while (runs.size > 0) await Promise.allSettled([...runs]);
      resolve();
    };
    onAbort(draining.signal, () => void settled());
  });
  const take = (message: unknown) => {
    const told = ToProcess.safeParse(message).data;
    if (!told) return;
    if ("drain" in told) return draining.abort();
    if (waiting) waiting.push(told.run);
    else begin(told.run);
  };
  return {
    over,
    listen() {
      process.on("message", take);
      process.once("disconnect", () => draining.abort());
      // The worker may have gone while this process started.
      if (!process.connected) draining.abort();
    },
    start() {
      // A process that must stop has never held the waiting runs: its worker retries them.
      if (draining.signal.aborted) return;
      tell({ ready: true });
      const early = waiting ?? [];
      waiting = undefined;
      for (const given of early) begin(given);
    },
  };
}

/** Carries the run out and reports how it ended. */
async function carryOut(context: RunContext, { id, ...taken }: GivenRun): Promise<void> {
  const end = await run(context, taken).catch((error: unknown): RunOutcome => {
    context.logger.error({ problem: messageOf(error), uid: taken.address.uid }, "Run left behind");
    return { status: "lost" };
  });
  if (end.status !== "isolate") tell({ id, end });
}

/** Sends nothing if the worker is gone. */
function tell(message: FromProcess): void {
  // A message sent between the worker's end and `disconnect` fails; without a callback the error would end this process.
  if (process.connected) process.send?.(message, undefined, {}, () => {});
}

/** Metrics of a process of suspects: its worker counts them. */
export const metricsOfWorker: RunMetrics = {
  takenOver: () => tell({ count: { takenOver: [] } }),
  settled: (...what) => tell({ count: { settled: what } }),
  answered: (...what) => tell({ count: { answered: what } }),
  bought: (...what) => tell({ count: { bought: what } }),
  refused: (...what) => tell({ count: { refused: what } }),
  toolCalled: (...what) => tell({ count: { toolCalled: what } }),
};

/** Slots of suspects; a run that is proved must yield. */
const UNTIL_PROVED: RunSlots = {
  admit(): RunSlot {
    const slot = {
      mustHandBack: false,
      isolate: async () => true,
      endIsolation() {
        slot.mustHandBack = true;
      },
      leave() {},
    };
    return slot;
  },
};
