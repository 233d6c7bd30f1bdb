/** Checks whether the offline model may answer: not work for a real model, and not in production, unless configured. */
import type { Clock } from "../../shared/clock.ts";
import { type Config, OFFLINE_MODEL } from "../../shared/config.ts";
import { SubagentError } from "../../shared/errors.ts";
import type { AgentRecord } from "../../shared/protocol/agent.ts";
import type { WorkerAnnouncement } from "../../shared/protocol/worker.ts";
import { openInstallation } from "../../shared/redis/installation.ts";
import { countWaiting } from "../../shared/redis/intake-stream.ts";
import { redisNowMs } from "../../shared/redis/redis-time.ts";
import { readParents } from "../../shared/redis/survey.ts";
import { withoutPassword } from "../../shared/redis-url.ts";
import type { CommandContext } from "../command.ts";
import { areOffline } from "../terminal/banner.ts";
import { formatPlural } from "../terminal/numbers.ts";
import { KEPT_MS } from "./parents.ts";
import { askRedis } from "./redis.ts";

const ASK_FOR_IT = "with SUBAGENT_MODEL=offline-1 it answers all the same";

/** Returns true if a worker of this configuration would use the offline model although it is not configured. */
function isOfflineByDefault({ provider, isModelSet, model }: Config): boolean {
  return !provider && !(isModelSet && model === OFFLINE_MODEL);
}

/**
 * Checks a worker that would join the `live` ones on a shared Redis. Throws `invalid_config` if it would use the offline model
 * by default and one of them may have a real model.
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

/** Checks a worker on a shared Redis. Throws `invalid_config` if it would use the offline model by default in production. */
export function refuseOfflineInProduction(config: Config): void {
  if (!config.production || !isOfflineByDefault(config)) return;
  throw new SubagentError(
    "invalid_config",
    `In production the offline model does not answer by default, for it answers by rule: set ANTHROPIC_API_KEY; ${ASK_FOR_IT}.`,
  );
}

/**
 * Checks a worker that `run` or `start` would start on a shared Redis with the `live` workers. Makes all three checks of this
 * file; that of waiting work only if no other worker is live. Rejects with `invalid_config`, `redis_unavailable`.
 */
export async function refuseOffline(
  { config, clock }: Pick<CommandContext, "config" | "clock">,
  live: readonly WorkerAnnouncement[],
  redisUrl: string,
): Promise<void> {
  refuseOfflineBeside(config, live, redisUrl);
  refuseOfflineInProduction(config);
  if (live.length === 0) await refuseBacklog(config, redisUrl, clock);
}

/**
 * Checks a worker that would be the only one on a shared Redis. Rejects with `invalid_config` if it would use the offline model
 * by default and work for another model waits, or a dead worker left it; with `redis_unavailable` as {@link askRedis} does.
 */
async function refuseBacklog(config: Config, redisUrl: string, clock: Clock): Promise<void> {
  if (!isOfflineByDefault(config)) return;
  const { runs, requests } = await readBacklog(config, redisUrl, clock);
  if (runs + requests === 0) return;
  const waiting = [
    ...(runs > 0 ? [`${formatPlural(runs, "run")} for another model`] : []),
    ...(requests > 0 ? [`${formatPlural(requests, "request")} to the intake`] : []),
  ].join(" and ");
  throw new SubagentError(
    "invalid_config",
    `The offline model would answer by rule what waits on ${withoutPassword(redisUrl)}, ${waiting}: set ANTHROPIC_API_KEY, or start a worker that has it; ${ASK_FOR_IT}.`,
  );
}

/** Counts the waiting work: queued and running runs of another model, and requests to the intake. */
function readBacklog({ prefix }: Config, redisUrl: string, clock: Clock) {
  return askRedis(redisUrl, clock, async (redis) => {
    const { keys, store, intakeQueue } = openInstallation(redis, { prefix });
    try {
      const [parents, jobs, entries] = await Promise.all([
        readParents(redis, keys, (await redisNowMs(redis)) - KEPT_MS.records, MOST_PARENTS),
        intakeQueue.due(),
        countWaiting(redis, keys),
      ]);
      let runs = 0;
      for (const { parent } of parents)
        runs += (await store.liveRecords(parent)).filter(isForAnotherModel).length;
      return { runs, requests: jobs + entries };
    } finally {
      await intakeQueue.stop();
    }
  });
}

/** Number of parents that are read, the last active first, so that the command starts soon. */
const MOST_PARENTS = 1_000;

/** Returns true if the agent is queued or running (perhaps left by a dead worker) and its model is not the offline one. */
function isForAnotherModel({ status, spec }: AgentRecord): boolean {
  return (status === "queued" || status === "running") && spec.model !== OFFLINE_MODEL;
}
