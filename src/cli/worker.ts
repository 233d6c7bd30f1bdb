/** `worker`: joins a Redis and works until it is told to stop; its log goes to stderr as JSON lines. */
import { SubagentError } from "../shared/errors.ts";
import { createWorker, type SubagentWorker } from "../worker/worker.ts";
import { modelText } from "./banner.ts";
import { type Closing, createClosing } from "./closing.ts";
import type { CommandContext } from "./command.ts";
import { EXIT } from "./exit-code.ts";
import { createHealthServer } from "./health-server.ts";
import { toJsonLine } from "./json.ts";
import { openModel, rootsOf } from "./local-service.ts";
import { pausedSince, pauseOf } from "./pause.ts";
import { noRedisAt, withoutPassword } from "./redis-source.ts";
import { whenAborted } from "./service.ts";

/** What the command line says. */
export interface WorkerFlags {
  /** The ready line as JSON. */
  json: boolean;
  /** Port of the health checks, 0 takes a free one; default SUBAGENT_HEALTH_PORT, else none are served. */
  healthPort?: number;
  /** Address of the health checks. */
  healthHost: string;
}

/**
 * Runs the command: waits for Redis as long as it takes, prints one line when it is ready, and drains when told to
 * stop. Throws `invalid_config` without REDIS_URL (a worker with a Redis of its own would wait for ever) and for a Redis
 * that will not do in production, `setup_failed` when the health port or the workspaces cannot be used.
 */
export async function worker(context: CommandContext, flags: WorkerFlags): Promise<number> {
  const { config, logger, clock, output, signal } = context;
  const { json } = flags;
  const { redisUrl, prefix, workspaceRoot, concurrency, prices } = config;
  if (redisUrl === undefined) {
    const sentence =
      "REDIS_URL is not set: a worker joins the Redis that its producers use, e.g. redis://host:6379.";
    throw new SubagentError("invalid_config", sentence);
  }
  const closing = createClosing();
  try {
    const roots = rootsOf(context, false);
    if (!config.provider) logger.warn({ model: config.model }, modelText(config));
    const model = await openModel(context, closing);
    const pool = createWorker({
      redisUrl,
      prefix,
      model,
      modelId: config.model,
      roots,
      workspaceRoot,
      concurrency,
      prices,
      trace: config.trace,
      strict: config.production,
      logger,
      clock,
    });
    const health = await serveHealth(context, flags, pool, closing);
    closing.add(() => pool.stop());
    const started = pool.start().catch((error: unknown) => {
      // It waits for a Redis that is away; one that refuses us (a wrong password) will not change its mind.
      if (!signal.aborted) throw reasonOf(redisUrl, error);
    });
    await Promise.race([started, whenAborted(signal)]);
    if (!signal.aborted) {
      output.result(await readyLine(context, redisUrl, { worker: pool.id, health }, json));
    }
    await whenAborted(signal);
    return EXIT.done;
  } finally {
    await closing.close();
  }
}

/** What is printed once the worker takes wakes: how it is known, where it works, and whether it may. */
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

/** Serves the health checks where flags or environment say so, until the very end; the answer is their address. */
async function serveHealth(
  { config, logger }: CommandContext,
  { healthPort: port = config.healthPort, healthHost: host }: WorkerFlags,
  pool: SubagentWorker,
  closing: Closing,
): Promise<string | undefined> {
  if (port === undefined) return undefined;
  const server = createHealthServer({ readiness: () => pool.readiness(), host, port });
  await server.start();
  closing.add(() => server.stop());
  logger.info({ url: server.url }, "Health checks are served");
  return server.url;
}

/** Redis' own refusal names the address; what the worker says in its own words stands as it is. */
function reasonOf(redisUrl: string, error: unknown): unknown {
  if (!(error instanceof SubagentError)) return noRedisAt(redisUrl, error);
  return error.cause instanceof Error && error.code === "invalid_config"
    ? noRedisAt(redisUrl, error.cause)
    : error;
}
