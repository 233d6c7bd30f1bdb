/** A command's access to an installation that runs elsewhere: its live workers, and a client. Loads no worker code. */
import { type Client, createClient } from "../../producer/client.ts";
import type { Clock } from "../../shared/clock.ts";
import { type Config, OFFLINE_MODEL } from "../../shared/config.ts";
import type { Logger } from "../../shared/logger.ts";
import type { WorkerAnnouncement } from "../../shared/protocol/worker.ts";
import type { PauseState } from "../../shared/redis/pause.ts";
import { readRedisClock } from "../../shared/redis/redis-time.ts";
import type { CommandContext } from "../command.ts";
import type { Disposables } from "./disposables.ts";
import { type AskedInstallation, askInstallation, withInstallation } from "./redis.ts";

/** Opens a client; `disposables` stops it. `model`: the model of agents that name none. */
export async function openClient(
  context: CommandContext,
  redisUrl: string,
  model: string | (() => string | undefined),
  disposables: Disposables,
): Promise<Client> {
  const { prefix, prices, timing, limits, budgets, agents, workspaceRoot } = context.config;
  const { logger, clock } = context;
  const strict = context.config.production;
  const installation = { redisUrl, prefix, prices, timing, limits, budgets, agents, workspaceRoot };
  const client = createClient({ ...installation, model, strict, logger, clock });
  disposables.addBeside(() => client.stop());
  await client.start();
  return client;
}

/** Logs the unusable files and folders of SUBAGENT_AGENTS: a spawn that names such a definition is refused. */
export function logUnusedDefinitions(client: Pick<Client, "definitions">, logger: Logger): void {
  for (const { file, line, message } of client.definitions().problems)
    logger.warn({ path: file, line, problem: message }, "Agent definition not used");
}

/** Reads the live workers of an installation, the pause in force and Redis' clock, all at once. */
export async function readWorkersAndPause(
  { redis, workers, pause }: AskedInstallation,
  clock: Clock,
): Promise<{ workers: WorkerAnnouncement[]; paused: PauseState | undefined; redisNowMs: () => number }> {
  const [live, paused, redisNowMs] = await Promise.all([
    workers.list(),
    pause.state(),
    readRedisClock(redis, clock),
  ]);
  return { workers: live, paused, redisNowMs };
}

/** Makes {@link readWorkersAndPause} over its own connection. Throws `redis_unavailable` with the reason. */
export function askWorkersAndPause(
  redisUrl: string,
  prefix: string,
  clock: Clock,
): ReturnType<typeof readWorkersAndPause> {
  return askInstallation(redisUrl, prefix, clock, (there) => readWorkersAndPause(there, clock));
}

/**
 * Returns the model of agents that name none: the configured one, else one that the workers announce, a real one before
 * the offline one. Undefined: there is neither.
 */
export function defaultModel(config: Config, workers: readonly WorkerAnnouncement[]): string | undefined {
  if (config.provider || config.isModelSet) return config.model;
  const announced = workers.flatMap((worker) => worker.model ?? []);
  return announced.find((model) => model !== OFFLINE_MODEL) ?? announced[0];
}

/** Poll interval of {@link lookupModel}, ms. */
const WORKERS_POLL_MS = 2_000;
/** The same while no model is known, and each spawn without one is refused. */
const FIRST_WORKER_POLL_MS = 100;

/**
 * {@link defaultModel} for a long-running process. If no model is configured, it polls the live workers, over its own connection,
 * until `disposables` closes. While no worker announces a model, the last one is kept. `workers`: those that are live now.
 */
export function lookupModel(
  { config, clock }: Pick<CommandContext, "config" | "clock">,
  redisUrl: string,
  workers: readonly WorkerAnnouncement[],
  disposables: Disposables,
): () => string | undefined {
  const ending = new AbortController();
  const { signal } = ending;
  disposables.add(() => ending.abort());
  let known = defaultModel(config, workers);
  const pollWorkers = async () => {
    while (!signal.aborted) {
      await withInstallation(redisUrl, config.prefix, clock, async (ask) => {
        while (!signal.aborted) {
          await clock.sleep(known === undefined ? FIRST_WORKER_POLL_MS : WORKERS_POLL_MS, signal);
          const found = defaultModel(config, await ask(({ workers }) => workers.list()));
          // While a worker with a real model restarts, an offline worker beside it does not replace its model.
          if (found !== OFFLINE_MODEL || known === undefined) known = found ?? known;
        }
      }).catch(() => {});
      // Redis is unreachable: try again later. A spawn meanwhile reports the error.
      await clock.sleep(WORKERS_POLL_MS, signal).catch(() => {});
    }
  };
  if (!config.provider && !config.isModelSet) void pollWorkers();
  return () => known;
}
