/** Guarantee: a worker asks about its runs while it hears no hints, and no more once the line is stopped. */
import { once } from "node:events";
import { expect, test } from "vitest";
import { openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { createWorkerHints } from "../../../src/worker/health/worker-hints.ts";
import { LeaseKeeper } from "../../../src/worker/run/lease.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { openStage } from "../../stage/stage.ts";

async function scene() {
  const { keys, store } = await openStage();
  const clock = handClock();
  const redis = openRedis(redisUrl(), "subscriber");
  let asked = 0;
  const line = createWorkerHints({
    redis,
    channel: keys.hints,
    leases: new LeaseKeeper({ store, clock }),
    onLimiter: () => {},
    canAsk: () => {
      asked += 1;
      return true;
    },
    clock,
  });
  closeAtEnd(() => line.stop());
  await line.start();
  return { redis, clock, line, asked: () => asked };
}

test("a line that is down asks at once, and again each half second", async () => {
  const { redis, clock, asked } = await scene();
  const before = asked();
  const down = once(redis, "close");
  redis.disconnect();
  await down;
  expect(asked()).toBe(before + 1);
  clock.advance(500);
  expect(asked()).toBe(before + 2);
});

test("a line that is stopped asks no more and leaves no timer", async () => {
  const { redis, clock, line, asked } = await scene();
  const before = asked();
  const down = once(redis, "close");
  line.stop();
  await down;
  expect([asked(), clock.pending]).toEqual([before, 0]);
});
