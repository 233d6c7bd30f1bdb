/** What a command needs of an installation that runs elsewhere: who works there, and a client. Loads no worker. */
import { type Client, createClient } from "../../producer/client.ts";
import type { Clock } from "../../shared/clock.ts";
import { type Config, OFFLINE_MODEL } from "../../shared/config.ts";
import type { Logger } from "../../shared/logger.ts";
import type { WorkerAnnouncement } from "../../shared/protocol/worker.ts";
import type { PauseState } from "../../shared/redis/pause.ts";
import type { CommandContext } from "../command.ts";
import type { Disposables } from "./disposables.ts";
import { askInstallation, withInstallation } from "./redis.ts";

/** Opens a client that ends with `disposables`; `model` is for agents that are given none. */
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

/** Logs the files and folders of SUBAGENT_AGENTS that cannot be used: an agent that names such a definition is refused. */
export function logUnusedDefinitions(client: Pick<Client, "definitions">, logger: Logger): void {
  for (const { file, line, message } of client.definitions().problems)
    logger.warn({ path: file, line, problem: message }, "Agent definition not used");
}

/** The live workers of `prefix`, and the pause they are in. Throws `redis_unavailable` with the reason. */
export function whoIsThere(
  redisUrl: string,
  prefix: string,
  clock: Clock,
): Promise<{ workers: WorkerAnnouncement[]; paused: PauseState | undefined }> {
  return askInstallation(redisUrl, prefix, clock, async ({ workers, pause }) => ({
    workers: await workers.list(),
    paused: await pause.state(),
  }));
}

/**
 * The model to ask for when none is named: the configured one; where nothing is configured, the one that the
 * workers announce, a real one before the offline one. Undefined: neither says one.
 */
export function modelToAsk(config: Config, workers: readonly WorkerAnnouncement[]): string | undefined {
  if (config.provider || config.isModelSet) return config.model;
  const announced = workers.flatMap((worker) => worker.model ?? []);
  return announced.find((model) => model !== OFFLINE_MODEL) ?? announced[0];
}

/** How old the answer of a {@link lookUpModel} may be, ms. */
const LOOKED_UP_MS = 2_000;

/**
 * {@link modelToAsk} in a process that stays. Where nothing is configured, the live workers are looked at again every two
 * seconds, over a connection of its own, until `disposables` close; while none says a model, the last one stands. `workers`: those that
 * are live now.
 */
export function lookUpModel(
  { config, clock }: Pick<CommandContext, "config" | "clock">,
  redisUrl: string,
  workers: readonly WorkerAnnouncement[],
  disposables: Disposables,
): () => string | undefined {
  const ending = new AbortController();
  const { signal } = ending;
  disposables.add(() => ending.abort());
  let known = modelToAsk(config, workers);
  const look = async () => {
    while (!signal.aborted) {
      await withInstallation(redisUrl, config.prefix, clock, async (ask) => {
        while (!signal.aborted) {
          await clock.sleep(LOOKED_UP_MS, signal);
          const found = modelToAsk(config, await ask(({ workers }) => workers.list()));
          // A real one that restarts is not replaced by the offline one beside it.
          if (found !== OFFLINE_MODEL || known === undefined) known = found ?? known;
        }
      }).catch(() => {});
      // A Redis that is away is asked again after a while; a spawn meanwhile says that it is.
      await clock.sleep(LOOKED_UP_MS, signal).catch(() => {});
    }
  };
  if (!config.provider && !config.isModelSet) void look();
  return () => known;
}
