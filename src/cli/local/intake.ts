/** The intake of a process with a worker: it turns requests of programs without this library into agents. */
import { createClient } from "../../producer/client.ts";
import { createIntake } from "../../service/intake/intake.ts";
import { messageOf } from "../../shared/errors.ts";
import type { CommandContext } from "../command.ts";
import { logUnusedDefinitions } from "./client.ts";
import type { Disposables } from "./disposables.ts";

/**
 * Starts the intake, which takes requests as soon as Redis answers; `disposables` stops it. `model`: the model of agents that
 * name none.
 */
export function openIntake(
  context: CommandContext,
  redisUrl: string,
  model: string,
  disposables: Disposables,
): void {
  const { prefix, prices, timing, limits, budgets, agents, production: strict } = context.config;
  const { logger, clock } = context;
  const client = createClient({
    ...{ redisUrl, prefix, prices, timing, limits, budgets, agents },
    ...{ model, strict, logger, clock },
  });
  logUnusedDefinitions(client, logger);
  const intake = createIntake({ redisUrl, prefix, client, logger, clock });
  let isStopping = false;
  disposables.addBeside(async () => {
    isStopping = true;
    await intake.stop();
    await client.stop();
  });
  intake.start().catch((error: unknown) => {
    // A start that the stop of its command broke off is no trouble.
    if (!isStopping) logger.warn({ problem: messageOf(error) }, "The intake could not start");
  });
}
