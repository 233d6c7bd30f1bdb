/** The observer of a worker, and where its figures come from that only Redis knows. */
import type { Clock } from "../../shared/clock.ts";
import type { Logger } from "../../shared/logger.ts";
import type { Keys } from "../../shared/protocol/keys.ts";
import type { RedisClient } from "../../shared/redis/connection/connection.ts";
import { readOldestReplyMs, readSweeperLagMs } from "../../shared/redis/survey.ts";
import type { WakeQueue } from "../../shared/redis/wake-queue.ts";
import { Metrics } from "./metrics.ts";
import { Observer } from "./observer.ts";

/** So many parents are asked for their oldest reply, those first that have been active longest ago. */
const PARENTS_ASKED = 1_000;

/** What an observer sees of its worker. */
export interface ObservedWorker {
  redis: RedisClient;
  keys: Keys;
  wakes: WakeQueue;
  /** How long a reply is kept that no parent acks. */
  replyTtlMs: number;
  /** Runs going on in this process. */
  activeRuns(): number;
  clock: Clock;
  logger: Logger;
}

/** An observer; `keepsMetrics`: with figures. */
export function openObserver(worker: ObservedWorker, keepsMetrics: boolean): Observer {
  const { redis, keys, wakes, replyTtlMs, activeRuns, clock, logger } = worker;
  if (!keepsMetrics) return new Observer(logger);
  const sources = {
    activeRuns,
    wakes: () => wakes.counts(),
    oldestReplyMs: () => readOldestReplyMs(redis, keys, { most: PARENTS_ASKED, replyTtlMs }),
    sweeperLagMs: () => readSweeperLagMs(redis, keys),
  };
  return new Observer(logger, new Metrics(sources, clock));
}
