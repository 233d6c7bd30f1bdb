/** The workers that are live on a Redis, and what is asked of them. */
import type { Clock } from "../shared/clock.ts";
import type { Config } from "../shared/config.ts";
import { keysUnder } from "../shared/protocol/keys.ts";
import type { WorkerAnnouncement } from "../shared/protocol/worker.ts";
import { createPause, type PauseState } from "../shared/redis/pause.ts";
import { createWorkerDirectory } from "../shared/redis/worker-directory.ts";
import { OFFLINE_MODEL } from "../shared/variables.ts";
import { askRedis } from "./redis-source.ts";

/** The live workers of `prefix`, and the pause they are in. Throws `redis_unavailable` with the reason. */
export function whoIsThere(
  redisUrl: string,
  prefix: string,
  clock: Clock,
): Promise<{ workers: WorkerAnnouncement[]; paused: PauseState | undefined }> {
  const keys = keysUnder(prefix);
  return askRedis(redisUrl, clock, async (redis) => ({
    workers: await createWorkerDirectory(redis, keys).list(),
    paused: await createPause(redis, keys).state(),
  }));
}

/** The live workers of `prefix`. Throws `redis_unavailable` with the reason. */
export async function liveWorkers(
  redisUrl: string,
  prefix: string,
  clock: Clock,
): Promise<WorkerAnnouncement[]> {
  return (await whoIsThere(redisUrl, prefix, clock)).workers;
}

/**
 * The model to ask for when nobody names one: the configured one; where nothing is configured, the one that the
 * workers announce, a real one before the offline one.
 */
export function modelToAsk(config: Config, workers: readonly WorkerAnnouncement[]): string {
  if (config.provider || config.model !== OFFLINE_MODEL) return config.model;
  const announced = workers.flatMap((worker) => worker.model ?? []);
  return announced.find((model) => model !== OFFLINE_MODEL) ?? announced[0] ?? config.model;
}

/** Whether every one of these workers says that it answers by rule. */
export function areOffline(workers: readonly WorkerAnnouncement[]): boolean {
  return workers.every((worker) => worker.model === OFFLINE_MODEL);
}
