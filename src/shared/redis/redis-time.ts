/** The one clock of an installation: its Redis. Loads no client, so that what imports it stays light. */
import type { RedisClient } from "./connection/connection.ts";

/** Redis' own time, epoch ms. */
export async function redisNowMs(redis: RedisClient): Promise<number> {
  const [seconds, micros] = await redis.time();
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}
