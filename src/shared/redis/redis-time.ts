/** The one clock of an installation: its Redis. Imports no client, so that importing it stays cheap. */
import type { Clock } from "../clock.ts";
import type { RedisClient } from "./connection/connection.ts";

/** Reads Redis' time, epoch ms. */
export async function redisNowMs(redis: RedisClient): Promise<number> {
  const [seconds, micros] = await redis.time();
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}

/** Reads Redis' time once. The returned function continues it by the monotonic clock, whatever the wall clock of this host says. */
export async function readRedisClock(
  redis: RedisClient,
  clock: Pick<Clock, "monotonicMs">,
): Promise<() => number> {
  const redisMs = await redisNowMs(redis);
  const readAtMs = clock.monotonicMs();
  return () => redisMs + Math.floor(clock.monotonicMs() - readAtMs);
}
