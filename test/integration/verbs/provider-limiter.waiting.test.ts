/** Guarantee: what is said to wait before a limiter has still to come, and its line can be read beyond the places it has. */
import { expect, test } from "vitest";
import { createProviderLimiter } from "../../../src/shared/redis/provider-limiter.ts";
import { verbRig } from "./rig.ts";

const NAME = "127.0.0.1:1/ab12cd34/offline-1";
const UNASKED = { status: "open", enteredAt: 0, holdsSlot: false } as const;

async function slowedLimiter() {
  const rig = verbRig();
  const limiter = createProviderLimiter(rig.redis, rig.keys);
  await limiter.release(NAME, "first", UNASKED, { outcome: "limited", reason: "overloaded" });
  const lines = { waiting: rig.keys.limiterWaiting(NAME), resuming: rig.keys.limiterResuming(NAME) };
  return { ...rig, limiter, lines };
}

test("runs whose appointment has passed, and that have not come, do not wait any more", async () => {
  const { redis, redisNow, limiter, lines } = await slowedLimiter();
  const now = await redisNow();
  for (const line of Object.values(lines)) {
    await redis.zadd(line, now - 2_001, "destroyed", now - 50_000, "destroyed too");
    await redis.zadd(line, now + 3_600_000, "asks later", now - 500, "on its way");
  }
  expect(await limiter.list()).toMatchObject([{ waiting: 4 }]);
});

test("the next runs of both lines are read, those that have made a call first, and stay where they are", async () => {
  const { redis, redisNow, limiter, lines, everything } = await slowedLimiter();
  const now = await redisNow();
  await redis.zadd(lines.waiting, now, "called", now + 60_000, "a", now + 50_000, "b");
  await redis.zadd(lines.resuming, now - 10, "called too", now + 70_000, "r");
  const many = Array.from({ length: 100 }, (_, i) => [now + 80_000 + i, `many-${i}`]).flat();
  await redis.zadd(lines.waiting, ...many);
  const stands = await everything();
  const line = await limiter.line(NAME);
  expect(line.slice(0, 3)).toEqual(["r", "b", "a"]);
  expect(line).toHaveLength(101);
  expect(await everything()).toEqual(stands);
  expect(await limiter.line("healthy")).toEqual([]);
});
