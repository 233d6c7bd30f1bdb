/**
 * A worker inside a process of suspects: it has no queue, takes its runs from the worker that started it, and ends with it.
 * Owns what it was handed, and closes it.
 */
import { closeRedis, type RedisClient } from "../shared/redis/connection/connection.ts";
import type { Readiness } from "./health/readiness.ts";
import type { HintLine } from "./health/stop-hints.ts";
import type { Watchdog } from "./health/watchdog.ts";
import type { IsolatedRuns } from "./isolated-runs.ts";
import type { RunContext } from "./run/context.ts";
import type { McpTools } from "./tools/mcp/tools.ts";

/** What is cut off has so long to say so, ms. */
const ABANDON_MS = 5_000;
const READINESS: Readiness = { ready: false, redis: "away", reasons: ["it runs suspects of another worker"] };

/** What it is made of, opened and not started. */
export interface IsolatedParts {
  context: Pick<RunContext, "clock" | "provider" | "toolTimers" | "wakes" | "leases">;
  redis: RedisClient;
  hints: HintLine;
  /** Of the connection. */
  heartbeat: { stop(): void };
  watchdog: Watchdog | undefined;
  runs: IsolatedRuns;
  mcp: Pick<McpTools, "stop">;
  prepare(): Promise<unknown>;
  drainGraceMs: number;
  draining: AbortController;
  abandoned: AbortController;
}

/** A worker, not started. Ends the process by SIGTERM when its own worker is gone: nothing else is left to do in it. */
export function createIsolatedWorker(id: string, open: () => IsolatedParts) {
  let parts: IsolatedParts | undefined;
  let starting: Promise<void> | undefined;
  let stopping: Promise<void> | undefined;
  const stop = async () => {
    const opened = parts;
    // Its own abort of `draining` comes back here.
    if (opened) stopping ??= Promise.resolve().then(() => end(opened));
    await stopping;
  };
  const start = async (opened: IsolatedParts) => {
    const leave = async () => {
      await stop();
      process.kill(process.pid, "SIGTERM");
    };
    opened.draining.signal.addEventListener("abort", () => void leave(), { once: true });
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
