/** Guarantee: places before and in a limiter of runs that never come are kept nowhere for ever, and cost no run a long wait. */
import { expect, test } from "vitest";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { createProviderLimiter, type LimiterRelease } from "../../../src/shared/redis/provider-limiter.ts";
import { verbRig } from "./rig.ts";

const NAME = "127.0.0.1:1/ab12cd34/offline-1";
const LIMITED: LimiterRelease = { outcome: "limited", reason: "overloaded" };

test("the places of runs that were called before any other run had one go by themselves", async () => {
  const { redis, keys, redisReaches } = verbRig();
  const limiter = createProviderLimiter(redis, keys, TIMING, () => 0);
  const first = await limiter.acquire(NAME, "first");
  if (first.status !== "open") return expect.unreachable();
  await limiter.release(NAME, "first", first, LIMITED);
  expect(await limiter.acquire(NAME, "a")).toMatchObject({ status: "wait" });
  await redis.zincrby(keys.limiterWaiting(NAME), 3_600_000, "a");
  await redisReaches(Number(await redis.hget(keys.limiter(NAME), "until")) + 1);
  expect(await limiter.next(NAME)).toEqual(["a"]);
  expect(await redis.pttl(keys.limiterHolders(NAME))).toBeGreaterThan(0);
});

test("of the runs that never came back a hundred leave with each that asks, and none of those that wait", async () => {
  const { redis, keys } = verbRig();
  const limiter = createProviderLimiter(redis, keys, TIMING, () => 0);
  const first = await limiter.acquire(NAME, "first");
  if (first.status !== "open") return expect.unreachable();
  await limiter.release(NAME, "first", first, { ...LIMITED, retryAfterMs: 60_000 });
  const waiting = keys.limiterWaiting(NAME);
  await redis.zadd(waiting, ...Array.from({ length: 150 }, (_, i) => [i + 1, `gone-${i}`]).flat());
  await limiter.acquire(NAME, "a");
  expect(await redis.zcard(waiting)).toBe(51);
  await limiter.acquire(NAME, "b");
  expect(await redis.zrange(waiting, 0, -1)).toEqual(["a", "b"]);
});
