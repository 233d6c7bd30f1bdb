/** Creates the run context of a worker process for a run that the test executes itself, without pool and sweeper. */
import { type Clock, CoarseTimers, systemClock } from "../../src/shared/clock.ts";
import { createLogger } from "../../src/shared/logger.ts";
import { createBudgetBook } from "../../src/shared/redis/budget.ts";
import { createPause } from "../../src/shared/redis/pause.ts";
import { createProviderLimiter, type ProviderLimiter } from "../../src/shared/redis/provider-limiter.ts";
import { createWorkerDirectory } from "../../src/shared/redis/workers.ts";
import { createAnthropicModel } from "../../src/worker/model/anthropic/model.ts";
import { Observer } from "../../src/worker/observe/observer.ts";
import type { RunContext } from "../../src/worker/run/context.ts";
import { LeaseKeeper } from "../../src/worker/run/lease.ts";
import { ProviderLimit } from "../../src/worker/run/provider-limit.ts";
import { SpecCache } from "../../src/worker/run/spec-cache.ts";
import { TextFeeds } from "../../src/worker/run/text-feed.ts";
import { createRunSlots } from "../../src/worker/run-slots.ts";
import { checkOutput } from "../../src/worker/tools/output-check.ts";
import { createToolbox } from "../../src/worker/tools/registry.ts";
import type { Tool } from "../../src/worker/tools/tool.ts";
import type { Stage } from "../stage/stage.ts";
import { closeAtEnd } from "./cleanup.ts";

/** A clock that the test can set forward without firing timers. */
export interface SkippingClock extends Clock {
  skip(ms: number): void;
}

/** Returns the system clock, whose monotonic time includes the skipped ms. */
export function skippingClock(): SkippingClock {
  return skippedBeyond(systemClock.monotonicMs);
}

/** Returns a clock with the timers of the system clock, whose monotonic time stands still but for the skipped ms. */
export function standingClock(): SkippingClock {
  const nowMs = systemClock.monotonicMs();
  return skippedBeyond(() => nowMs);
}

/** Returns the system clock with timers a hundred times as late, so that nothing is too slow for a limit on a busy machine. */
export function patientClock(): Clock {
  return { ...systemClock, timeout: (ms, callback) => systemClock.timeout(100 * ms, callback) };
}

function skippedBeyond(monotonicMs: () => number): SkippingClock {
  let skippedMs = 0;
  return {
    ...systemClock,
    monotonicMs: () => monotonicMs() + skippedMs,
    skip(ms) {
      skippedMs += ms;
    },
  };
}

/** Returns a provider limit that has read nothing yet, so it asks Redis before a call. `more` overrides the limiter's methods. */
export function providerLimitOf(
  { redis, keys, store }: Stage,
  clock: Clock,
  more: Partial<ProviderLimiter> = {},
): ProviderLimit {
  return new ProviderLimit({
    limiter: { ...createProviderLimiter(redis, keys), ...more },
    tellOthers: () => {},
    wakeEarly: async () => true,
    pause: createPause(redis, keys),
    clock,
    timing: store.timing,
    logger: createLogger({ level: "silent" }),
  });
}

/** Returns the cache of specs of a worker that has these tools. */
export function kindsWith(tools: readonly Tool[]): SpecCache {
  return new SpecCache({
    toolbox: createToolbox(tools),
    roots: [],
    permissions: [],
    skills: undefined,
    prices: {},
    logger: createLogger({ level: "silent" }),
  });
}

/** Returns the context for one run of an agent of the installation. `more` overrides its members. */
export function runContextOf(installation: Stage, more: Partial<RunContext> = {}): RunContext {
  const { redis, keys, store, deadlines, wakes, offline, workspaceRoot } = installation;
  const { clock = systemClock, draining = new AbortController().signal } = more;
  const logger = createLogger({ level: "silent" });
  const model = more.model ?? createAnthropicModel({ apiKey: "offline", baseUrl: offline.url });
  const toolTimers = new CoarseTimers(clock);
  closeAtEnd(async () => {
    toolTimers.stop();
    await model.stop();
  });
  return {
    workerId: "one",
    prefix: installation.prefix,
    store,
    deadlines,
    wakes,
    workers: createWorkerDirectory(redis, keys),
    publish: () => {},
    model,
    provider: providerLimitOf(installation, clock),
    budgets: createBudgetBook(redis, keys, store.timing),
    specs: kindsWith([]),
    checkOutput,
    toolNames: () => [],
    roots: [],
    hooks: [],
    workspaceRoot,
    prices: {},
    traced: false,
    sendsTraceparent: false,
    observer: new Observer(logger),
    clock,
    random: Math.random,
    logger,
    draining,
    abandoned: new AbortController().signal,
    leases: new LeaseKeeper({ store, clock }),
    toolTimers,
    texts: new TextFeeds(clock),
    slots: createRunSlots({ clock, draining, pause: () => {}, resume: () => {} }),
    suspects: "in_this_process",
    ...more,
  };
}
