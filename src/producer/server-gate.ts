/** Production mode on the parent's side: new work is handed to no Redis that may lose it. */
import type { RedisClient } from "../shared/redis/connection.ts";
import { checkServers, refusalOf } from "../shared/redis/server-check.ts";
import type { Call } from "./call.ts";

/** Passes, or rejects with `invalid_config` that names the fix, or with `redis_unavailable`. */
export type ServerGate = (call: Call) => Promise<void>;

/** A gate that looks at the server once a connection, as part of the call; open to all unless `strict`. */
export function createServerGate(redis: RedisClient, strict: boolean): ServerGate {
  if (!strict) return async () => {};
  let hasPassed = false;
  redis.on("close", () => {
    hasPassed = false;
  });
  return async (call) => {
    if (hasPassed) return;
    const refusal = refusalOf(await call.read(() => checkServers(redis)), strict);
    if (refusal) throw refusal;
    hasPassed = true;
  };
}
