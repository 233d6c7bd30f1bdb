/** `worker`: joins a Redis and works until a signal stops it; its log goes to stderr as JSON lines. */

import { Option } from "commander";
import { SubagentError } from "../../shared/errors.ts";
import { withoutPassword } from "../../shared/redis-url.ts";
import { whenAborted } from "../../shared/stop-signal.ts";
import { createHealthServer } from "../../worker/health/server.ts";
import { createWorker, type SubagentWorker } from "../../worker/worker.ts";
import {
  type CommandContext,
  type DefineCommand,
  EXIT,
  listenAddress,
  strictOptions,
  wholeUpTo,
} from "../command.ts";
import { createDisposables, type Disposables } from "../local/disposables.ts";
import { openIntake } from "../local/intake.ts";
import { refuseOfflineBeside, refuseOfflineInProduction } from "../local/offline.ts";
import { pauseOf } from "../local/pause.ts";
import { namingRedis, requireRedisUrl } from "../local/redis.ts";
import { modelAnnounced, openBash, openModel, rootsOf, skillsOf } from "../local/service.ts";
import { pausedSince } from "../local/wait.ts";
import { modelText } from "../terminal/banner.ts";
import { toJsonLine } from "../terminal/text.ts";

const HELP = `
Examples:
  REDIS_URL=redis://127.0.0.1:6379 subagent-queue worker
  REDIS_URL=redis://127.0.0.1:6379 SUBAGENT_ROOTS=/srv/repo:ro SUBAGENT_CONCURRENCY=200 subagent-queue worker
  NODE_ENV=production REDIS_URL=redis://redis:6379 subagent-queue worker --health-port 8790 --health-host 0.0.0.0
  curl -s http://127.0.0.1:8790/readyz    200 when it takes work, else 503 and why
  curl -s http://127.0.0.1:8790/metrics   metrics for Prometheus

Without ANTHROPIC_API_KEY or ANTHROPIC_BASE_URL the offline model answers, by rule. Such a worker does not
start in production, nor beside workers that have a provider, unless SUBAGENT_MODEL=offline-1 or
--allow-offline asks for it.`;

/** Adds the arguments, flags and action of the verb. */
export const verb: DefineCommand = (command, open, done) => {
  strictOptions(command)
    .option("--json", "the ready line as JSON", false)
    .option(
      "--health-port <port>",
      "port that serves /healthz, /readyz and /metrics; 0: any free port",
      wholeUpTo(65_535),
    )
    .option("--health-host <address>", "address of the health checks, default 127.0.0.1", listenAddress)
    .option(
      "--allow-offline",
      "without ANTHROPIC_API_KEY answer by rule, in production and beside real workers, too",
      false,
    )
    .addOption(new Option("--isolated", "runs suspects of the worker that starts it").hideHelp())
    .addHelpText("after", HELP)
    .action(async (flags: WorkerFlags & { strict?: boolean }) =>
      done(await worker(open("info", flags), flags)),
    );
};

/** Command-line flags. */
interface WorkerFlags {
  /** Print the ready line as JSON. */
  json: boolean;
  /** Port of the health checks; 0: a free one; default: SUBAGENT_HEALTH_PORT, else none are served. */
  healthPort?: number;
  /** Address of the health checks; default: loopback. */
  healthHost?: string;
  /** Allow the offline model everywhere if no provider is configured. */
  allowOffline: boolean;
  /** True: a worker started this process to run its suspects; the process stops itself when that worker is gone. */
  isolated?: boolean;
}

const NO_HEALTH_PORT = "--health-host needs a port: give --health-port as well, or set SUBAGENT_HEALTH_PORT.";

/**
 * Runs the command: waits for Redis without limit, prints one line when it is ready, and drains when a signal stops it.
 * Throws `invalid_config` without REDIS_URL (no producer would use a worker's private Redis), if it would use the offline
 * model in production or beside real workers, and for a Redis unsafe in production. Throws `setup_failed` if the health port
 * or the workspaces cannot be used, `invalid_input` for an address of the health checks without a port.
 */
async function worker(context: CommandContext, flags: WorkerFlags): Promise<number> {
  const { config, output, signal } = context;
  const redisUrl = requireRedisUrl(config, "a worker joins the Redis that its producers use");
  if (flags.healthHost !== undefined && (flags.healthPort ?? config.healthPort) === undefined)
    throw new SubagentError("invalid_input", NO_HEALTH_PORT);
  // A process of suspects has the permissions of the worker that started it.
  if (!flags.allowOffline && !flags.isolated) refuseOfflineInProduction(config);
  const disposables = createDisposables();
  try {
    const pool = await createPool(context, flags, redisUrl, disposables);
    const health = flags.isolated ? undefined : await serveHealth(context, flags, pool, disposables);
    disposables.addBeside(() => pool.stop());
    const started = pool.start().catch((error: unknown) => {
      // `start` waits for an unreachable Redis; it rejects if Redis refuses the worker (wrong password), as a retry is useless.
      if (!signal.aborted) throw namingRedis(redisUrl, error);
    });
    await Promise.race([started, whenAborted(signal)]);
    if (!signal.aborted && !flags.isolated) {
      openIntake(context, redisUrl, config.model, disposables);
      output.result(await readyLine(context, redisUrl, { worker: pool.id, health }, flags.json));
    }
    await whenAborted(signal);
    if (!flags.isolated)
      context.logger.info("stopping: runs finish the step at hand and go to other workers");
    return EXIT.done;
  } finally {
    await disposables.close();
  }
}

/** Creates the configured worker without starting it. */
async function createPool(
  context: CommandContext,
  flags: WorkerFlags,
  redisUrl: string,
  disposables: Disposables,
): Promise<SubagentWorker> {
  const { config, logger, clock } = context;
  const { prefix, workspaceRoot, concurrency, prices } = config;
  const roots = rootsOf(context, false);
  if (!config.provider) logger.warn({ model: config.model }, modelText(config));
  const model = await openModel(context, disposables);
  const { tools, sentence } = await openBash(context);
  logger[config.bash.mode === "unsandboxed" ? "warn" : "info"]({ bash: tools.length > 0 }, sentence);
  return createWorker({
    redisUrl,
    prefix,
    model,
    modelId: modelAnnounced(config),
    ...(!flags.allowOffline && { admit: (live) => refuseOfflineBeside(config, live, redisUrl) }),
    roots,
    tools,
    mcpServers: config.mcpServers,
    ...(await skillsOf(context)),
    workspaceRoot,
    concurrency,
    watchdog: true,
    ...isolationOf(flags),
    prices,
    trace: config.trace,
    strict: config.production,
    metrics: (flags.healthPort ?? config.healthPort) !== undefined,
    sendTraceparent: config.sendTraceparent,
    logger,
    clock,
  });
}

/** Returns the isolation options: a worker starts this program again, with its environment, as the process of suspects. */
function isolationOf({ isolated }: WorkerFlags) {
  const [, file = ""] = process.argv;
  return isolated ? { isolated } : { isolation: { file, args: ["worker", "--isolated"] } };
}

/** Returns the line that is printed when the worker takes wakes: its id, its Redis, and the pause in force. */
async function readyLine(
  { config, clock }: CommandContext,
  redisUrl: string,
  { worker: id, health }: { worker: string; health: string | undefined },
  json: boolean,
): Promise<string> {
  const { prefix, concurrency, model } = config;
  const redis = withoutPassword(redisUrl);
  const paused = await pauseOf(redisUrl, prefix, clock).catch(() => undefined);
  if (json) return toJsonLine({ status: "ready", worker: id, redis, concurrency, model, health, paused });
  const state = paused ? `; ${pausedSince(paused)}` : "";
  return `ready: worker ${id} on ${redis}, up to ${concurrency} runs, ${modelText(config)}${state}`;
}

/** Serves the health checks if flags or environment set a port, until `disposables` closes; returns their URL. */
async function serveHealth(
  { config, logger }: CommandContext,
  { healthPort: port = config.healthPort, healthHost: host = "127.0.0.1" }: WorkerFlags,
  pool: SubagentWorker,
  disposables: Disposables,
): Promise<string | undefined> {
  if (port === undefined) return undefined;
  const server = createHealthServer({ worker: pool, host, port });
  await server.start();
  disposables.add(() => server.stop());
  logger.info({ url: server.url }, "Health checks are served");
  return server.url;
}
