/** A turn that one process at a time has: a string key with its token, which expires when the process dies. */
import type { RedisClient } from "./connection/connection.ts";

/** Takes or keeps the turn for `ms`; false while another process has it. */
export async function takeTurn(redis: RedisClient, key: string, token: string, ms: number): Promise<boolean> {
  if ((await redis.set(key, token, "PX", ms, "NX")) === "OK") return true;
  if ((await redis.get(key)) !== token) return false;
  return (await redis.pexpire(key, ms)) === 1;
}

/**
 * Gives the turn up. Between its two commands the turn may pass to another process: then two have it for a moment, which its
 * holders must bear anyway.
 */
export async function giveUpTurn(redis: RedisClient, key: string, token: string): Promise<void> {
  if ((await redis.get(key)) === token) await redis.del(key);
}
