/** Guarantee: a place that a run was called to is kept for two seconds, not longer: others wait for it meanwhile. */
import { expect, test } from "vitest";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { createProviderLimiter } from "../../../src/shared/redis/provider-limiter.ts";
import { verbRig } from "./rig.ts";

const NAME = "127.0.0.1:1/ab12cd34/offline-1";

test("a run that was called holds its place for two seconds from its call on", async () => {
  const { redis, keys, redisReaches } = verbRig();
  const limiter = createProviderLimiter(redis, keys, TIMING, () => 0);
  const first = await limiter.acquire(NAME, "first");
  if (first.status !== "open") return expect.unreachable();
  await limiter.release(NAME, "first", first, { outcome: "limited", reason: "overloaded" });
  expect(await limiter.acquire(NAME, "a")).toMatchObject({ status: "wait" });
  await redis.zincrby(keys.limiterWaiting(NAME), 3_600_000, "a");
  await redisReaches(Number(await redis.hget(keys.limiter(NAME), "until")) + 1);
  expect(await limiter.next(NAME)).toEqual(["a"]);
  // Its place in the line has the time of the call.
  const calledAt = Number(await redis.zscore(keys.limiterWaiting(NAME), "a"));
  expect(Number(await redis.zscore(keys.limiterHolders(NAME), "a")) - calledAt).toBe(2_000);
});
