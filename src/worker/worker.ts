/**
 * A worker process' part of the system, composed: pool, sweeper, hints, connections.
 * Owns its connections and closes them; the model and the tools stay their owner's.
 */
import { setMaxListeners } from "node:events";
import { hostname } from "node:os";
import { type Clock, systemClock } from "../shared/clock.ts";
import { createLogger, type Logger } from "../shared/logger.ts";
import { newRequestKey } from "../shared/protocol/ids.ts";
import { keysUnder } from "../shared/protocol/keys.ts";
import type { PriceOverrides } from "../shared/protocol/pricing.ts";
import { TIMING, type Timing } from "../shared/protocol/timing.ts";
import { createAgentStore } from "../shared/redis/agent-store.ts";
import { closeRedis, openRedis, parseRedisUrl } from "../shared/redis/connection.ts";
import { createDeadlineSet } from "../shared/redis/deadline-set.ts";
import { eventPublisher } from "../shared/redis/event-channel.ts";
import { createWakeQueue } from "../shared/redis/wake-queue.ts";
import type { Model } from "./model/model.ts";
import { createPool } from "./pool.ts";
import type { RunContext } from "./run-context.ts";
import { createSweeper } from "./sweeper.ts";
import { createBaseTools } from "./tools/builtin/base-tools.ts";
import { createToolbox, type Toolbox } from "./tools/registry.ts";
import type { OpenRoot } from "./tools/roots.ts";
import type { Tool } from "./tools/tool.ts";

/** Runs that go on side by side in one process, unless said otherwise. */
export const DEFAULT_CONCURRENCY = 50;

/** What a worker is made of. */
export interface WorkerOptions {
  /** `redis://…`, `rediss://…` or `unix:///…`. */
  redisUrl: string;
  /** Prefix of all keys, default `saq`; producers use the same. */
  prefix?: string;
  /** The model port; stays the caller's to stop. */
  model: Model;
  /** Custom tools besides the base ones (`read_file`, `write_file`, `edit_file`, `glob`, `grep`). */
  tools?: readonly Tool[];
  /** Directories open to the tools besides each agent's workspace. */
  roots?: readonly OpenRoot[];
  /** Host directory of all workspaces, shared by all hosts of an installation. */
  workspaceRoot: string;
  /** Runs side by side in this process, default 50. */
  concurrency?: number;
  /** Prices by model id, over the built-in table. */
  prices?: PriceOverrides;
  logger?: Logger;
  clock?: Clock;
  timing?: Timing;
  /** A number in [0, 1); default `Math.random`. */
  random?: () => number;
}

/** A worker. */
export interface SubagentWorker {
  /** `<host>-<random>`. */
  readonly id: string;
  /** Connects and begins to take wakes; waits for Redis as long as it takes. Idempotent. */
  start(): Promise<void>;
  /** Releases what runs, closes everything it opened; at most about 20 s. Idempotent. */
  stop(): Promise<void>;
  /** The uids of the agents running here. */
  active(): string[];
}

/** A worker, not started. Throws `invalid_config` for a wrong URL, a tool error for clashing tools. */
export function createWorker(options: WorkerOptions): SubagentWorker {
  const id = `${hostname()}-${newRequestKey().slice(0, 8)}`;
  const { clock = systemClock } = options;
  const toolbox = createToolbox([...createBaseTools({ clock }), ...(options.tools ?? [])]);
  parseRedisUrl(options.redisUrl);
  let live: ReturnType<typeof compose> | undefined;
  return {
    id,
    async start() {
      live ??= compose(options, id, toolbox);
      await live.start();
    },
    async stop() {
      await live?.stop();
      live = undefined;
    },
    active: () => live?.pool.active() ?? [],
  };
}

/** Opens the connections and puts the parts together. */
function compose(options: WorkerOptions, workerId: string, toolbox: Toolbox) {
  const { clock = systemClock, timing = TIMING, logger = createLogger() } = options;
  const keys = keysUnder(options.prefix);
  const redis = openRedis(options.redisUrl, "worker", logger);
  const hints = openRedis(options.redisUrl, "subscriber", logger);
  const draining = new AbortController();
  const abandoned = new AbortController();
  setMaxListeners(0, draining.signal, abandoned.signal);
  const context: RunContext = {
    workerId,
    store: createAgentStore(redis, keys, timing),
    deadlines: createDeadlineSet(redis, keys),
    wakes: createWakeQueue(redis, keys, logger),
    publish: eventPublisher(redis, keys),
    model: options.model,
    toolbox,
    roots: options.roots ?? [],
    workspaceRoot: options.workspaceRoot,
    prices: options.prices ?? {},
    clock,
    random: options.random ?? Math.random,
    logger,
    draining: draining.signal,
    abandoned: abandoned.signal,
    leases: new Map(),
  };
  const concurrency = options.concurrency ?? DEFAULT_CONCURRENCY;
  const pool = createPool(context, { redis, keys, concurrency, draining, abandoned });
  const sweeper = createSweeper(context);
  hints.on("message", (_channel, uid: string) => void context.leases.get(uid)?.check());
  return {
    pool,
    async start() {
      await hints.subscribe(keys.hints);
      await pool.start();
      sweeper.start();
    },
    async stop() {
      await pool.stop();
      // What still waits for a Redis that is away is refused from here on, so that nothing waits for ever.
      closeRedis(redis);
      closeRedis(hints);
      await sweeper.stop();
      await context.wakes.stop();
    },
  };
}
