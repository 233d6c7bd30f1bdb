/** A lock that one process at a time holds: a string key with its token, which expires when the process dies. */
import type { RedisClient } from "./connection/connection.ts";

/** Takes or keeps the lock for `ms`; false while another process holds it. */
export async function takeLock(redis: RedisClient, key: string, token: string, ms: number): Promise<boolean> {
  if ((await redis.set(key, token, "PX", ms, "NX")) === "OK") return true;
  if ((await redis.get(key)) !== token) return false;
  return (await redis.pexpire(key, ms)) === 1;
}

/**
 * Releases the lock. Between its two commands it may pass to another process, which then loses it: two processes may hold it
 * for a moment, and its holders must bear that.
 */
export async function releaseLock(redis: RedisClient, key: string, token: string): Promise<void> {
  if ((await redis.get(key)) === token) await redis.del(key);
}
