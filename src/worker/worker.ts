/**
 * Composition of a worker process: pool, sweeper, announcer, hints, connections.
 * Owns its connections and closes them; the caller owns the model and the tools.
 */

import { hostname } from "node:os";
import { type Clock, CoarseTimers, systemClock, within } from "../shared/clock.ts";
import { DEFAULT_PREFIX } from "../shared/config.ts";
import { createLogger, guardedLogger, type Logger } from "../shared/logger.ts";
import { McpServers } from "../shared/mcp-server.ts";
import { packageVersion, refuseBundled } from "../shared/package.ts";
import { newRequestKey } from "../shared/protocol/ids.ts";
import type { Keys } from "../shared/protocol/keys.ts";
import { TIMING } from "../shared/protocol/limits.ts";
import { PermissionRules } from "../shared/protocol/permissions.ts";
import { needsOf, type WorkerAnnouncement } from "../shared/protocol/worker.ts";
import { createBudgetBook } from "../shared/redis/budget.ts";
import {
  closeRedis,
  openRedis,
  type RedisClient,
  refuseWrongServer,
} from "../shared/redis/connection/connection.ts";
import { startHeartbeat } from "../shared/redis/connection/heartbeat.ts";
import { eventPublisher } from "../shared/redis/events.ts";
import { openInstallation } from "../shared/redis/installation.ts";
import { createProviderLimiter } from "../shared/redis/provider-limiter.ts";
import type { WakeQueue } from "../shared/redis/wake-queue.ts";
import { createCancellable } from "../shared/start-stop.ts";
import { onAbort } from "../shared/stop-signal.ts";
import { telemetryApi } from "../shared/telemetry.ts";
import { type Announcer, createAnnouncer } from "./health/announcer.ts";
import { credentialProbe, diskProbe, type Health, openHealth, pauseProbe } from "./health/health.ts";
import type { Readiness } from "./health/readiness.ts";
import { createWatchdog, type Watchdog } from "./health/watchdog.ts";
import { createWorkerHints, limiterHint, type WorkerHints } from "./health/worker-hints.ts";
import {
  createIsolatedRuns,
  createIsolatedWorker,
  type IsolatedParts,
  metricsOfWorker,
} from "./isolated-worker.ts";
import { Metrics, type Scrape } from "./observe/metrics.ts";
import { Observer } from "./observe/observer.ts";
import { createPool, DRAIN_GRACE_MS, type Pool } from "./pool.ts";
import type { SharedContext } from "./run/context.ts";
import { LeaseKeeper } from "./run/lease.ts";
import { createEarlyWakes, ProviderLimit } from "./run/provider-limit.ts";
import { SpecCache } from "./run/spec-cache.ts";
import { TextFeeds } from "./run/text-feed.ts";
import { createWriteRetry, withBudgetRetry, withWriteRetry } from "./run/write-retry.ts";
import { skillToolFor } from "./skills/skill-tool.ts";
import { createSweeper, type Sweeper } from "./sweeper.ts";
import { createBaseTools } from "./tools/builtin/index.ts";
import { createMcpTools, type McpTools } from "./tools/mcp/tools.ts";
import { checkOutput } from "./tools/output-check.ts";
import { createToolbox, type Toolbox } from "./tools/registry.ts";
import type { Tool } from "./tools/tool.ts";
import { requireWritable } from "./tools/workspace.ts";
import { checkWorkerOptions, DEFAULT_CONCURRENCY, type WorkerOptions } from "./worker-options.ts";

/** A worker. */
export interface SubagentWorker {
  /** `<host>-<random>`. */
  readonly id: string;
  /**
   * Connects and begins to take wakes. Waits for Redis without a time limit; rejects with `closed` if `stop` is called
   * meanwhile. Rejects with `setup_failed` if workspaces cannot be written. Rejects with `invalid_config` if Redis refuses
   * the password or database, is a cluster node addressed as a single server, or has settings that must not be used. On
   * rejection nothing has been taken or written. During a stop it begins after that. Idempotent.
   */
  start(): Promise<void>;
  /** Releases its runs and closes everything it opened; takes at most the grace and about 10 s. Idempotent. */
  stop(): Promise<void>;
  /** The uids of the agents running in this process. */
  active(): string[];
  /** Returns whether the worker takes wakes and can do its work now, and if not, why; within about a second. */
  readiness(): Promise<Readiness>;
  /** Metrics for Prometheus, within about a second; undefined without the option `metrics` or before the start. */
  metrics(): Promise<Scrape | undefined>;
}

/**
 * Creates a worker, not started. Throws `invalid_config` that names every wrong option, a tool error if tools clash, or
 * `setup_failed` in a program that a bundler made.
 */
export function createWorker(options: WorkerOptions): SubagentWorker {
  checkWorkerOptions(options);
  refuseBundled();
  const { clock = systemClock } = options;
  const id = `${hostname()}-${newRequestKey().slice(0, 8)}`;
  const logger = guardedLogger(options.logger ?? createLogger());
  const { mcpServers = {} } = options;
  const mcp = createMcpTools(McpServers.parse(mcpServers), { clock, logger });
  const toolbox = createToolbox([...createBaseTools({ clock }), ...ownToolsOf(options)], mcp.tools);
  if (options.isolated)
    return createIsolatedWorker(id, () => openIsolated({ ...options, logger, clock, id, toolbox }, mcp));
  const prepare = () => Promise.all([requireWritable(options.workspaceRoot, clock), mcp.start()]);
  const work = createCancellable("The worker", {
    open: () => open({ ...options, logger, clock, id, toolbox }),
    begin: (opened, requireGoingOn) => begin(opened, prepare, requireGoingOn),
    end: (opened, starting) => close(opened, mcp, starting, clock),
  });
  return {
    id,
    start: work.start,
    stop: work.stop,
    active: () => work.opened?.pool.active() ?? [],
    readiness: async () => (await work.opened?.health.readiness()) ?? NOT_STARTED,
    metrics: async () => work.opened?.metrics?.scrape(),
  };
}

/** Longest wait for Redis to take the worker out of the directory: a cluster that is down lets commands wait for ever. */
const WITHDRAW_MS = 1_000;

async function close(
  { redis, hints, pool, sweeper, wakes, announcer, health, watchdog, metrics }: Opened,
  mcp: McpTools,
  starting: Promise<void> | undefined,
  clock: Clock,
): Promise<void> {
  health.enter("stopping");
  // A sweep or start in progress may wait for Redis; closing the connections ends it.
  const swept = sweeper.stop();
  await pool.stop();
  // Withdraws the worker only after its last run is handed back: until then spawns may name its tools.
  const withdrawn = announcer.stop();
  if (redis.status === "ready") await within(clock, WITHDRAW_MS, withdrawn);
  await mcp.stop();
  health.stop();
  metrics?.stop();
  closeRedis(redis);
  hints.stop();
  await Promise.all([starting?.catch(() => {}), swept, withdrawn, wakes.stop()]);
  await watchdog?.stop();
}

function ownToolsOf({ tools = [], skills }: WorkerOptions) {
  return [...tools, ...skillToolFor(skills, undefined)];
}

const NOT_STARTED: Readiness = { ready: false, redis: "away", reasons: ["the worker is not started"] };

/** Parts of an opened worker. */
interface Opened {
  redis: RedisClient;
  hints: WorkerHints;
  pool: Pool;
  sweeper: Sweeper;
  wakes: WakeQueue;
  announcer: Announcer;
  health: Health;
  watchdog: Watchdog | undefined;
  observer: Observer;
  metrics: Metrics | undefined;
  /** Calls the option `admit`, which may throw to refuse this worker beside the live ones. */
  admitBesideOthers(): Promise<void>;
}

/** Runs the start steps in order; throws `closed` if the worker is stopped meanwhile. */
async function begin(
  { redis, hints, pool, sweeper, announcer, health, watchdog, observer, metrics, admitBesideOthers }: Opened,
  prepare: () => Promise<unknown>,
  requireGoingOn: () => void,
): Promise<void> {
  const watch = async () => watchdog?.start();
  const trace = async () => observer.traceWith(await telemetryApi());
  const checks = [prepare, trace, health.admit, () => refuseWrongServer(redis), admitBesideOthers];
  for (const step of [...checks, hints.start, watch, pool.start, announcer.start]) {
    await step();
    requireGoingOn();
  }
  metrics?.start();
  sweeper.start();
  health.enter("working");
}

type OpenOptions = WorkerOptions & { clock: Clock; id: string; toolbox: Toolbox };

function open(options: OpenOptions): Opened {
  const { concurrency = DEFAULT_CONCURRENCY, drainGraceMs = DRAIN_GRACE_MS } = options;
  const shared = openContext(options);
  const { context, redis, limiter, pause, metrics } = shared;
  const { logger } = context;
  const hints = openHints(options, shared);
  const pool = createPool(context, { ...shared, concurrency, drainGraceMs, isolation: options.isolation });
  // While Redis takes no announcement of this worker, those of others expire as well.
  const onMissed = () => sweeper.distrustList();
  const announcer = createAnnouncer(context.workers, announced(options, concurrency), {
    ...context,
    onMissed,
  });
  const probes = [
    pauseProbe(pause, context.wakes),
    credentialProbe(limiter, options.model),
    diskProbe(options.workspaceRoot),
  ];
  const health = openHealth({ ...options, redis, hints, pool, announcer, probes, logger });
  // A sweeper does not wait while Redis refuses an end: on a cluster the other nodes may take writes, and their agents are due.
  const sweeper = createSweeper({ ...context, store: shared.store, metrics });
  const watchdog = options.watchdog ? createWatchdog(watched(options, logger)) : undefined;
  const { wakes, workers, observer } = context;
  const admitBesideOthers = async () => options.admit?.(await workers.list());
  const shown = { health, watchdog, observer, metrics };
  return { redis, hints, pool, sweeper, wakes, announcer, ...shown, admitBesideOthers };
}

function openHints(
  { redisUrl, clock }: OpenOptions,
  { context: { leases, provider, logger }, keys, redis }: ReturnType<typeof openContext>,
): WorkerHints {
  return createWorkerHints({
    redis: openRedis(redisUrl, "subscriber", logger, clock),
    channel: keys.hints,
    leases,
    onLimiter: (name) => provider.suspect(name),
    canAsk: () => redis.status === "ready",
    clock,
  });
}

/** Opens a worker for a process of suspects: it has only the runs, the hints and the watchdog of a worker. */
function openIsolated(options: OpenOptions, mcp: McpTools): IsolatedParts {
  const shared = openContext(options);
  const { context, draining, abandoned } = shared;
  return {
    ...shared,
    hints: openHints(options, shared),
    heartbeat: startHeartbeat(shared.redis, options.clock),
    watchdog: options.watchdog ? createWatchdog(isolatedWatchdogOptions(options, context.logger)) : undefined,
    runs: createIsolatedRuns(context, draining),
    mcp,
    prepare: () => Promise.all([requireWritable(options.workspaceRoot, options.clock), mcp.start()]),
    drainGraceMs: options.drainGraceMs ?? DRAIN_GRACE_MS,
    draining,
    abandoned,
  };
}

/** Opens what the runs of this process share, and the connection and signals beneath it. */
function openContext(options: OpenOptions) {
  const { redisUrl, prefix, logger = createLogger(), random = Math.random, clock } = options;
  const redis = openRedis(redisUrl, "worker", logger, clock);
  const installation = openInstallation(redis, { prefix, timing: options.timing, logger });
  const { keys, timing, deadlines, wakes, workers, pause } = installation;
  const [draining, abandoned] = [new AbortController(), new AbortController()];
  const retry = createWriteRetry({ clock, logger, abandoned: abandoned.signal });
  const store = withWriteRetry(installation.store, retry);
  const leases = new LeaseKeeper({ store, clock, retry });
  onAbort(abandoned.signal, () => leases.interruptAll());
  const limiter = createProviderLimiter(redis, keys, timing, random);
  const limits = { limiter, pause, clock, timing, logger, wakeEarly: createEarlyWakes(store, wakes) };
  const provider = new ProviderLimit({ ...limits, ...tellLimit(redis, keys) });
  const { permissions, skills, ...settings } = settingsOf(options);
  const { replyTtlMs } = timing;
  const observed = { redis, keys, wakes, pause, replyTtlMs, activeRuns: () => leases.held.size, clock };
  const metrics = options.metrics && !options.isolated ? new Metrics(observed) : undefined;
  const context: SharedContext = {
    workerId: options.id,
    store,
    deadlines,
    wakes,
    workers,
    publish: eventPublisher(redis, keys),
    model: options.model,
    provider,
    budgets: withBudgetRetry(createBudgetBook(redis, keys, timing), retry),
    specs: new SpecCache({
      toolbox: options.toolbox,
      roots: settings.roots,
      permissions,
      skills,
      prices: settings.prices,
      logger,
    }),
    checkOutput,
    toolNames: namesForClaims(options),
    ...settings,
    observer: new Observer(logger, options.isolated ? metricsOfWorker : metrics),
    clock,
    random,
    logger,
    draining: draining.signal,
    abandoned: abandoned.signal,
    leases,
    toolTimers: new CoarseTimers(clock),
    texts: new TextFeeds(clock),
  };
  return { context, store: installation.store, redis, keys, limiter, pause, metrics, draining, abandoned };
}

/** Watchdog options: an event loop that is blocked for the length of a lease has lost all its leases. */
function watched({ id: workerId, clock, timing = TIMING }: OpenOptions, logger: Logger) {
  return { workerId, clock, logger, silenceMs: timing.leaseMs };
}

/** Ends a process of suspects before any of its leases expires, so that its worker learns of the crash first. */
function isolatedWatchdogOptions(options: OpenOptions, logger: Logger) {
  const { leaseMs, renewMs, leaseMarginMs } = options.timing ?? TIMING;
  return { ...watched(options, logger), silenceMs: leaseMs - renewMs - leaseMarginMs / 4 };
}

function tellLimit(redis: RedisClient, keys: Keys) {
  return {
    tellOthers: (name: string) => void redis.publish(keys.hints, limiterHint(name)).catch(() => {}),
  };
}

function settingsOf({
  roots = [],
  workspaceRoot,
  prefix = DEFAULT_PREFIX,
  prices = {},
  trace,
  sendTraceparent = false,
  permissions,
  hooks = [],
  skills,
}: WorkerOptions) {
  return {
    roots,
    permissions: permissions ? [PermissionRules.parse(permissions)] : [],
    hooks,
    skills,
    workspaceRoot,
    prefix,
    prices,
    traced: trace === "full",
    sendsTraceparent: sendTraceparent,
  };
}

/** Tools, skills and hooks that an agent may need and not every worker has. */
function offersOf({ toolbox, skills, hooks = [] }: OpenOptions) {
  return {
    tools: namesOf(toolbox),
    skills: skills?.skills.map(({ name }) => name),
    hooks: hooks.map(({ name }) => name),
  };
}

/** Returns the names that claims offer; rebuilt only if MCP servers have added tools. */
function namesForClaims(options: OpenOptions): () => readonly string[] {
  let tools: readonly Tool[] | undefined;
  let names: readonly string[] = [];
  return () => {
    const { tools: now } = options.toolbox.resolve(undefined);
    if (now !== tools) names = needsOf(offersOf(options));
    tools = now;
    return names;
  };
}

/** Names of the tools known so far, and of the MCP servers that provide some of them. */
function namesOf(toolbox: Toolbox): string[] {
  const { tools } = toolbox.resolve(undefined);
  return [...tools.map(({ name }) => name), ...new Set(tools.flatMap(({ server = [] }) => server))];
}

/** This worker's entry in the directory. */
function announced(options: OpenOptions, concurrency: number): Omit<WorkerAnnouncement, "v"> {
  const { id, toolbox, modelId } = options;
  return {
    id,
    host: hostname(),
    version: packageVersion(),
    get tools() {
      return [...new Set([...namesOf(toolbox), ...needsOf(offersOf(options))])];
    },
    ...(modelId !== undefined && { model: modelId }),
    concurrency,
  };
}
