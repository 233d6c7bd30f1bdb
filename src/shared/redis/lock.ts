/** Locks that one process at a time holds: string keys with its token, which expire when the process dies. */
import type { Keys } from "../protocol/keys.ts";
import { TIMING } from "../protocol/limits.ts";
import type { RedisClient } from "./connection/connection.ts";
import { loadScripts } from "./scripts.ts";

/** See the module's header. Commands reject as the connection does. */
export interface Locks {
  /** Takes or keeps the lock for `ms`; false while another process holds it. */
  hold(lock: string, token: string, ms: number): Promise<boolean>;
  /** Releases the lock, if it is still held with `token`. */
  release(lock: string, token: string): Promise<void>;
}

/** The locks of an installation, each by its key. */
export function createLocks(redis: RedisClient, keys: Keys): Locks {
  const scripts = loadScripts(redis, keys, TIMING);
  return {
    async hold(lock, token, ms) {
      return (await scripts.run("lock-hold", undefined, { lock, token, ms })).status === "held";
    },
    async release(lock, token) {
      await scripts.run("lock-release", undefined, { lock, token });
    },
  };
}
