import { expect, test } from "vitest";
import { openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { createWorkerHints, limiterHint } from "../../../src/worker/health/worker-hints.ts";
import { LeaseKeeper } from "../../../src/worker/run/lease.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { latch } from "../../helpers/latch.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { openStage } from "../../stage/stage.ts";

test("a hint about a provider's limiter names that limiter, and is no hint about an agent", async () => {
  const { keys, store, redis } = await openStage();
  const clock = handClock();
  const told = latch<string>();
  const leases = new LeaseKeeper({ store, clock });
  const askedAbout: string[] = [];
  leases.askAbout = (uid) => void askedAbout.push(uid);
  const line = createWorkerHints({
    ...{ redis: openRedis(redisUrl(), "subscriber"), channel: keys.hints, leases, clock },
    onLimiter: told.open,
    canAsk: () => true,
  });
  closeAtEnd(() => line.stop());
  await line.start();
  await redis.publish(keys.hints, limiterHint("anthropic main"));
  expect(await told.opened).toBe("anthropic main");
  expect(askedAbout).toEqual([]);
});
