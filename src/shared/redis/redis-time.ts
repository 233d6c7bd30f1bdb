/** The one clock of an installation: its Redis. Imports no client, so that importing it stays cheap. */
import type { RedisClient } from "./connection/connection.ts";

/** Reads Redis' time, epoch ms. */
export async function redisNowMs(redis: RedisClient): Promise<number> {
  const [seconds, micros] = await redis.time();
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}
