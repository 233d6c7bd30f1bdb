/**
 * A worker process' part of the system, composed: pool, sweeper, announcer, hints, connections.
 * Owns its connections and closes them; the model and the tools stay their owner's.
 */
import { setMaxListeners } from "node:events";
import { hostname } from "node:os";
import { type Clock, systemClock } from "../shared/clock.ts";
import { SubagentError } from "../shared/errors.ts";
import { createLogger } from "../shared/logger.ts";
import { newRequestKey } from "../shared/protocol/ids.ts";
import { keysUnder } from "../shared/protocol/keys.ts";
import { TIMING } from "../shared/protocol/timing.ts";
import type { WorkerAnnouncement } from "../shared/protocol/worker.ts";
import { createAgentStore } from "../shared/redis/agent-store.ts";
import { closeRedis, openRedis, type RedisClient, refuseClusterNode } from "../shared/redis/connection.ts";
import { createDeadlineSet } from "../shared/redis/deadline-set.ts";
import { eventPublisher } from "../shared/redis/event-channel.ts";
import { createPause } from "../shared/redis/pause.ts";
import { createProviderGate } from "../shared/redis/provider-gate.ts";
import { createWakeQueue, type WakeQueue } from "../shared/redis/wake-queue.ts";
import { createWorkerDirectory } from "../shared/redis/worker-directory.ts";
import { packageVersion } from "../shared/version.ts";
import { type Announcer, createAnnouncer } from "./announcer.ts";
import { type Health, openHealth } from "./health.ts";
import { createHintLine, type HintLine } from "./hint-line.ts";
import type { Lease } from "./lease.ts";
import { createPool, DRAIN_GRACE_MS, type Pool } from "./pool.ts";
import type { Readiness } from "./readiness.ts";
import { credentialProbe, pauseProbe } from "./readiness-probes.ts";
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
   * Connects and begins to take wakes; waits for Redis as long as it takes, or until `stop`, and rejects then
   * (`closed`). Rejects with `setup_failed` when workspaces cannot be written, with `invalid_config` when Redis refuses the
   * password or database, is one node of a cluster named as a server, or must not be used as it is set; nothing was taken
   * or written by then. Idempotent.
   */
  start(): Promise<void>;
  /** Releases what runs, closes everything it opened; at most the grace and about 10 s. Idempotent. */
  stop(): Promise<void>;
  /** The uids of the agents running here. */
  active(): string[];
  /** Whether it takes wakes and can do its work now, and why not; answers within about a second, whatever happens. */
  readiness(): Promise<Readiness>;
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

  const end = async ({ redis, hints, pool, sweeper, wakes, announcer, health }: Opened) => {
    health.enter("stopping");
    // A sweep or a start in progress may wait for Redis: they end at the latest with the connections.
    const swept = Promise.all([sweeper.stop(), announcer.stop()]);
    await pool.stop();
    health.stop();
    closeRedis(redis);
    hints.stop();
    await Promise.all([starting?.catch(() => {}), swept, wakes.stop()]);
    opened = undefined;
    starting = undefined;
    stopping = undefined;
  };
  return {
    id,
    start() {
      opened ??= open({ ...options, clock, id, toolbox });
      starting ??= begin(
        opened,
        () => requireWritable(options.workspaceRoot, clock),
        () => stopping !== undefined,
      );
      return starting;
    },
    stop() {
      if (opened) stopping ??= end(opened);
      return stopping ?? Promise.resolve();
    },
    active: () => opened?.pool.active() ?? [],
    readiness: async () => (await opened?.health.readiness()) ?? NOT_STARTED,
  };
}

const NOT_STARTED: Readiness = { ready: false, redis: "away", reasons: ["the worker is not started"] };

/** What a started worker holds. */
interface Opened {
  redis: RedisClient;
  hints: HintLine;
  pool: Pool;
  sweeper: Sweeper;
  wakes: WakeQueue;
  announcer: Announcer;
  health: Health;
}

/** Step by step, until the worker is to stop: then the rest would find its connections closed. */
async function begin(
  { redis, hints, pool, sweeper, announcer, health }: Opened,
  prepare: () => Promise<unknown>,
  isStopping: () => boolean,
): Promise<void> {
  for (const step of [prepare, health.admit, () => refuseClusterNode(redis), hints.start, pool.start]) {
    await step();
    if (isStopping()) throw new SubagentError("closed", "The worker was stopped before it had started.");
  }
  sweeper.start();
  announcer.start();
  health.enter("working");
}

function open(options: WorkerOptions & { clock: Clock; id: string; toolbox: Toolbox }): Opened {
  const { redisUrl, timing = TIMING, logger = createLogger() } = options;
  const keys = keysUnder(options.prefix);
  const redis = openRedis(redisUrl, "worker", logger, options.clock);
  const draining = new AbortController();
  const abandoned = new AbortController();
  setMaxListeners(0, draining.signal, abandoned.signal);
  const wakes = createWakeQueue(redis, keys, logger);
  const workers = createWorkerDirectory(redis, keys);
  const leases = new Map<string, Lease>();
  const { random = Math.random } = options;
  const context: Omit<RunContext, "quarantine"> = {
    workerId: options.id,
    store: createAgentStore(redis, keys, timing),
    deadlines: createDeadlineSet(redis, keys, timing),
    wakes,
    workers,
    publish: eventPublisher(redis, keys),
    model: options.model,
    gate: createProviderGate(redis, keys, timing, random),
    toolbox: options.toolbox,
    roots: options.roots ?? [],
    workspaceRoot: options.workspaceRoot,
    prices: options.prices ?? {},
    traced: options.trace === "full",
    clock: options.clock,
    random,
    logger,
    draining: draining.signal,
    abandoned: abandoned.signal,
    leases,
  };
  const hints = createHintLine({
    redis: openRedis(redisUrl, "subscriber", logger, options.clock),
    channel: keys.hints,
    leases,
    canAsk: () => redis.status === "ready",
    clock: options.clock,
  });
  const { concurrency = DEFAULT_CONCURRENCY, drainGraceMs = DRAIN_GRACE_MS } = options;
  const pool = createPool(context, { redis, keys, concurrency, drainGraceMs, draining, abandoned });
  const announcer = createAnnouncer(workers, announced(options, concurrency), context);
  const { strict = false, clock } = options;
  const probes = [pauseProbe(createPause(redis, keys)), credentialProbe(context.gate, options.model)];
  const health = openHealth({ redis, hints, pool, announcer, strict, probes, clock, logger });
  return { redis, hints, pool, sweeper: createSweeper(context), wakes, announcer, health };
}

/** What the worker says about itself. */
function announced(
  { id, toolbox, modelId, clock }: WorkerOptions & { clock: Clock; id: string; toolbox: Toolbox },
  concurrency: number,
): Omit<WorkerAnnouncement, "v"> {
  return {
    id,
    host: hostname(),
    pid: process.pid,
    version: packageVersion(),
    tools: toolbox.resolve(undefined).tools.map((tool) => tool.name),
    ...(modelId !== undefined && { model: modelId }),
    concurrency,
    started_at: new Date(clock.now()).toISOString(),
  };
}
