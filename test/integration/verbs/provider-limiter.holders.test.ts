/** Guarantee: slots of dead workers are free at once, and their entries leave a hundred at a time, however many they are. */
import { expect, test } from "vitest";
import { createProviderLimiter } from "../../../src/shared/redis/provider-limiter.ts";
import { verbRig } from "./rig.ts";

const NAME = "127.0.0.1:1/ab12cd34/offline-1";
const UNASKED = { status: "open", enteredAt: 0, holdsSlot: false } as const;

/** A limiter that is open again with `limit` slots, and `dead` expired holders. */
async function openedLimiter({ limit, dead }: { limit: number; dead: number }) {
  const rig = verbRig();
  const { redis, keys } = rig;
  const limiter = createProviderLimiter(redis, keys);
  await limiter.release(NAME, "first", UNASKED, { outcome: "limited", reason: "overloaded" });
  const now = await rig.redisNow();
  await redis.hset(keys.limiter(NAME), { until: now - 1_000, limit });
  const holders = keys.limiterHolders(NAME);
  const all = Array.from({ length: dead }, (_, run) => [now - 1, `dead-${run}`]).flat();
  for (let from = 0; from < all.length; from += 20_000)
    await redis.zadd(holders, ...all.slice(from, from + 20_000));
  return { ...rig, limiter, holders, now };
}

test("beside 30,000 dead holders a run has a slot at once, and each question removes a hundred of them", async () => {
  const { redis, keys, limiter, holders } = await openedLimiter({ limit: 2, dead: 30_000 });
  expect(await limiter.acquire(NAME, "a")).toMatchObject({ status: "open", holdsSlot: true });
  expect(await redis.zcard(holders)).toBe(29_901);
  expect(await limiter.acquire(NAME, "b")).toMatchObject({ status: "open", holdsSlot: true });
  expect(await limiter.acquire(NAME, "c")).toMatchObject({ status: "wait" });
  expect(await redis.zcard(holders)).toBe(29_702);
  await redis.hset(keys.limiter(NAME), { limit: 3 });
  expect(await limiter.next(NAME)).toEqual(["c"]);
  expect(await redis.zcard(holders)).toBe(29_603);
});

test("a run whose own slot has expired has none while others hold them all", async () => {
  const { redis, limiter, holders, now } = await openedLimiter({ limit: 1, dead: 200 });
  await redis.zadd(holders, now - 1, "late", now + 60_000, "holder");
  expect(await limiter.acquire(NAME, "late")).toMatchObject({ status: "wait" });
});

test("a refusal halves the calls in flight, among which no dead one counts", async () => {
  const { redis, keys, limiter, holders, now } = await openedLimiter({ limit: 9, dead: 300 });
  await redis.zadd(holders, ...Array.from({ length: 9 }, (_, run) => [now + 60_000, `live-${run}`]).flat());
  const entered = { status: "open", enteredAt: now + 1, holdsSlot: true } as const;
  await limiter.release(NAME, "live-0", entered, { outcome: "limited", reason: "overloaded" });
  expect(await redis.hget(keys.limiter(NAME), "target")).toBe("4");
});
