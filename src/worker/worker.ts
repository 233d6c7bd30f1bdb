/**
 * A worker process' part of the system, composed: pool, sweeper, announcer, hints, connections.
 * Owns its connections and closes them; the model and the tools stay their owner's.
 */
import { setMaxListeners } from "node:events";
import { hostname } from "node:os";
import { type Clock, systemClock } from "../shared/clock.ts";
import { createLogger } from "../shared/logger.ts";
import { newRequestKey } from "../shared/protocol/ids.ts";
import { keysUnder } from "../shared/protocol/keys.ts";
import { TIMING } from "../shared/protocol/timing.ts";
import { createAgentStore } from "../shared/redis/agent-store.ts";
import { closeRedis, openRedis, type RedisClient, whenReady } from "../shared/redis/connection.ts";
import { createDeadlineSet } from "../shared/redis/deadline-set.ts";
import { eventPublisher } from "../shared/redis/event-channel.ts";
import { createWakeQueue, type WakeQueue } from "../shared/redis/wake-queue.ts";
import { createWorkerDirectory } from "../shared/redis/worker-directory.ts";
import { packageVersion } from "../shared/version.ts";
import { type Announcer, createAnnouncer } from "./announcer.ts";
import type { Lease } from "./lease.ts";
import { createPool, DRAIN_GRACE_MS, type Pool } from "./pool.ts";
import type { RunContext } from "./run-context.ts";
import { createSweeper, type Sweeper } from "./sweeper.ts";
import { createBaseTools } from "./tools/builtin/base-tools.ts";
import { createToolbox, type Toolbox } from "./tools/registry.ts";
import { requireWritable } from "./tools/workspace.ts";
import { checkWorkerOptions, DEFAULT_CONCURRENCY, type WorkerOptions } from "./worker-options.ts";

/** A worker. */
export interface SubagentWorker {
  /** `<host>-<random>`. */
  readonly id: string;
  /**
   * Connects and begins to take wakes; waits for Redis as long as it takes, or until `stop`, and rejects then. Rejects with
   * `setup_failed` when workspaces cannot be written. Idempotent.
   */
  start(): Promise<void>;
  /** Releases what runs, closes everything it opened; at most the grace and about 10 s. Idempotent. */
  stop(): Promise<void>;
  /** The uids of the agents running here. */
  active(): string[];
}

/** A worker, not started. Throws `invalid_config` that names every wrong option, a tool error for clashing tools. */
export function createWorker(options: WorkerOptions): SubagentWorker {
  checkWorkerOptions(options);
  const { clock = systemClock } = options;
  const id = `${hostname()}-${newRequestKey().slice(0, 8)}`;
  const toolbox = createToolbox([...createBaseTools({ clock }), ...(options.tools ?? [])]);
  let opened: Opened | undefined;
  let starting: Promise<void> | undefined;
  let stopping: Promise<void> | undefined;

  const begin = async ({ hints, channel, pool, sweeper, announcer }: Opened) => {
    await requireWritable(options.workspaceRoot, clock);
    await whenReady(hints);
    await hints.subscribe(channel);
    if (stopping) return;
    await pool.start();
    if (stopping) return;
    sweeper.start();
    announcer.start();
  };
  const end = async ({ redis, hints, pool, sweeper, wakes, announcer }: Opened) => {
    // A sweep or a start in progress may wait for Redis: they end at the latest with the connections.
    const swept = Promise.all([sweeper.stop(), announcer.stop()]);
    await pool.stop();
    closeRedis(redis);
    closeRedis(hints);
    await Promise.all([starting?.catch(() => {}), swept, wakes.stop()]);
    opened = undefined;
    starting = undefined;
    stopping = undefined;
  };
  return {
    id,
    start() {
      opened ??= open({ ...options, clock, id, toolbox });
      starting ??= begin(opened);
      return starting;
    },
    stop() {
      if (opened) stopping ??= end(opened);
      return stopping ?? Promise.resolve();
    },
    active: () => opened?.pool.active() ?? [],
  };
}

/** What a started worker holds. */
interface Opened {
  redis: RedisClient;
  hints: RedisClient;
  /** Channel of the hints. */
  channel: string;
  pool: Pool;
  sweeper: Sweeper;
  wakes: WakeQueue;
  announcer: Announcer;
}

function open(options: WorkerOptions & { clock: Clock; id: string; toolbox: Toolbox }): Opened {
  const { redisUrl, timing = TIMING, logger = createLogger() } = options;
  const keys = keysUnder(options.prefix);
  const redis = openRedis(redisUrl, "worker", logger);
  const hints = openRedis(redisUrl, "subscriber", logger);
  const draining = new AbortController();
  const abandoned = new AbortController();
  setMaxListeners(0, draining.signal, abandoned.signal);
  const wakes = createWakeQueue(redis, keys, logger);
  const leases = new Map<string, Lease>();
  const context: RunContext = {
    workerId: options.id,
    store: createAgentStore(redis, keys, timing),
    deadlines: createDeadlineSet(redis, keys),
    wakes,
    publish: eventPublisher(redis, keys),
    model: options.model,
    toolbox: options.toolbox,
    roots: options.roots ?? [],
    workspaceRoot: options.workspaceRoot,
    prices: options.prices ?? {},
    traced: options.trace === "full",
    clock: options.clock,
    random: options.random ?? Math.random,
    logger,
    draining: draining.signal,
    abandoned: abandoned.signal,
    leases,
  };
  hints.on("message", (_channel, uid: string) => void leases.get(uid)?.check());
  const { concurrency = DEFAULT_CONCURRENCY, drainGraceMs = DRAIN_GRACE_MS } = options;
  const pool = createPool(context, { redis, keys, concurrency, drainGraceMs, draining, abandoned });
  const announced = {
    id: options.id,
    host: hostname(),
    pid: process.pid,
    version: packageVersion(),
    tools: options.toolbox.resolve(undefined).tools.map((tool) => tool.name),
    ...(options.modelId !== undefined && { model: options.modelId }),
    concurrency,
    started_at: new Date(options.clock.now()).toISOString(),
  };
  const announcer = createAnnouncer(createWorkerDirectory(redis, keys), announced, context);
  return { redis, hints, channel: keys.hints, pool, sweeper: createSweeper(context), wakes, announcer };
}
