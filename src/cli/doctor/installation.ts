/**
 * What the doctor has open of an installation: one connection that fails at once, and what works over it. Whoever opens
 * it closes it.
 */
import { once } from "node:events";
import type { Clock } from "../../shared/clock.ts";
import type { Logger } from "../../shared/logger.ts";
import { type Keys, keysUnder } from "../../shared/protocol/keys.ts";
import { TIMING, type Timing } from "../../shared/protocol/timing.ts";
import { type AgentInspection, createAgentInspection } from "../../shared/redis/agent-inspection.ts";
import { type AgentStore, createAgentStore } from "../../shared/redis/agent-store.ts";
import { closeRedis, openRedis, type RedisClient } from "../../shared/redis/connection.ts";
import { createDeadlineSet, type DeadlineSet } from "../../shared/redis/deadline-set.ts";
import {
  createWakeQueue,
  openWakeQueueForReading,
  type ReadableWakeQueue,
  type WakeQueue,
} from "../../shared/redis/wake-queue.ts";
import type { Closing } from "../closing.ts";

/** See the module's sentence. */
export interface Installation {
  prefix: string;
  keys: Keys;
  timing: Timing;
  clock: Clock;
  logger: Logger;
  redis: RedisClient;
  store: AgentStore;
  deadlines: DeadlineSet;
  wakes: WakeQueue;
  queue: ReadableWakeQueue;
  inspection: AgentInspection;
}

/** Opens the installation under `prefix`; ends with `closing`. Rejects with the connection's own error. */
export async function openInstallation(
  redisUrl: string,
  {
    prefix,
    clock,
    logger,
    timing = TIMING,
  }: Pick<Installation, "prefix" | "clock" | "logger"> & { timing?: Timing },
  closing: Closing,
): Promise<Installation> {
  const keys = keysUnder(prefix);
  const redis = openRedis(redisUrl, "producer");
  closing.add(() => closeRedis(redis));
  // Rejects with the first error.
  if (redis.status !== "ready") await once(redis, "ready");
  const wakes = createWakeQueue(redis, keys, logger);
  closing.add(() => wakes.stop());
  const queue = openWakeQueueForReading(redis, keys);
  closing.add(() => queue.close());
  return {
    prefix,
    keys,
    timing,
    clock,
    logger,
    redis,
    store: createAgentStore(redis, keys, timing),
    deadlines: createDeadlineSet(redis, keys, timing),
    wakes,
    queue,
    inspection: createAgentInspection(redis, keys, wakes, timing),
  };
}
