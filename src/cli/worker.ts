/** `worker`: joins a Redis and works until it is told to stop; its log goes to stderr as JSON lines. */
import { SubagentError } from "../shared/errors.ts";
import { createWorker } from "../worker/worker.ts";
import { modelText } from "./banner.ts";
import { createClosing } from "./closing.ts";
import type { CommandContext } from "./command.ts";
import { EXIT } from "./exit-code.ts";
import { toJsonLine } from "./json.ts";
import { openModel, rootsOf } from "./local-service.ts";
import { pausedSince, pauseOf } from "./pause.ts";
import { noRedisAt, withoutPassword } from "./redis-source.ts";
import { whenAborted } from "./service.ts";

/** What the command line says. */
export interface WorkerFlags {
  /** The ready line as JSON. */
  json: boolean;
}

/**
 * Runs the command: waits for Redis as long as it takes, prints one line when it is ready, and drains when told to
 * stop. Throws `invalid_config` without REDIS_URL: a worker with a Redis of its own would wait for ever.
 */
export async function worker(context: CommandContext, { json }: WorkerFlags): Promise<number> {
  const { config, logger, clock, output, signal } = context;
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
      logger,
      clock,
    });
    closing.add(() => pool.stop());
    const started = pool.start().catch((error: unknown) => {
      // It waits for a Redis that is away; one that refuses us (a wrong password) will not change its mind.
      if (!signal.aborted) throw noRedisAt(redisUrl, error);
    });
    await Promise.race([started, whenAborted(signal)]);
    if (!signal.aborted) {
      const redis = withoutPassword(redisUrl);
      const paused = await pauseOf(redisUrl, prefix, clock).catch(() => undefined);
      const state = paused ? `; ${pausedSince(paused)}` : "";
      const sentence = `ready: worker ${pool.id} on ${redis}, up to ${concurrency} runs, ${modelText(config)}${state}`;
      const facts = { status: "ready", worker: pool.id, redis, concurrency, model: config.model, paused };
      output.result(json ? toJsonLine(facts) : sentence);
    }
    await whenAborted(signal);
    return EXIT.done;
  } finally {
    await closing.close();
  }
}
