/** Where the offline model may answer: never beside real workers or in production, unless it was asked for. */
import { type Config, OFFLINE_MODEL } from "../../shared/config.ts";
import { SubagentError } from "../../shared/errors.ts";
import type { WorkerAnnouncement } from "../../shared/protocol/worker.ts";
import { withoutPassword } from "../../shared/redis-url.ts";
import { areOffline } from "../terminal/banner.ts";
import { formatPlural } from "../terminal/numbers.ts";

const ASK_FOR_IT = "with SUBAGENT_MODEL=offline-1 it answers all the same";

/** Whether a worker of this configuration would answer by rule though nothing says that it should. */
function isOfflineByDefault({ provider, isModelSet, model }: Config): boolean {
  return !provider && !(isModelSet && model === OFFLINE_MODEL);
}

/**
 * Checks a worker that would join the `live` ones on a Redis that others use. Throws `invalid_config` where it would answer by
 * rule by default and one of them may be real.
 */
export function refuseOfflineBeside(
  config: Config,
  live: readonly WorkerAnnouncement[],
  redisUrl: string,
): void {
  if (!isOfflineByDefault(config) || areOffline(live)) return;
  const workers = `${formatPlural(live.length, "worker")} on ${withoutPassword(redisUrl)}`;
  throw new SubagentError(
    "invalid_config",
    `The offline model would answer by rule beside ${workers}: set ANTHROPIC_API_KEY, or give them the work with "subagent-queue run"; ${ASK_FOR_IT}.`,
  );
}

/** Checks a worker that stays. Throws `invalid_config` where it would answer by rule by default, in production. */
export function refuseOfflineInProduction(config: Config): void {
  if (!config.production || !isOfflineByDefault(config)) return;
  throw new SubagentError(
    "invalid_config",
    `In production the offline model does not answer by default, for it answers by rule: set ANTHROPIC_API_KEY; ${ASK_FOR_IT}.`,
  );
}
