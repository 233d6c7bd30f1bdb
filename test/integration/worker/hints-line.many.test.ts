/** Guarantee: a worker with many runs that hears no hints asks about them, and leaves Redis time for others. */
import { once } from "node:events";
import { expect, test } from "vitest";
import { openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { createWorkerHints } from "../../../src/worker/health/worker-hints.ts";
import type { LeaseKeeper } from "../../../src/worker/run/lease.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";

test.for([
  [50, 500],
  [120, 1_200],
  [5_000, 3_000],
] as const)("%i runs are asked about every %i ms", async ([runs, everyMs]) => {
  let asked = 0;
  const lease = {
    async renew() {
      asked += 1;
    },
  };
  const held = new Map(Array.from({ length: runs }, (_, n) => [`sa-${n}`, lease] as const));
  const clock = handClock();
  const redis = openRedis(redisUrl(), "subscriber");
  const line = createWorkerHints({
    ...{ redis, channel: uniquePrefix(), clock, onLimiter: () => {}, canAsk: () => true },
    leases: { held } as unknown as LeaseKeeper,
  });
  closeAtEnd(() => line.stop());
  await line.start();
  const down = once(redis, "close");
  redis.disconnect();
  await down;
  asked = 0;
  clock.advance(everyMs - 1);
  expect(asked).toBe(0);
  clock.advance(1);
  expect(asked).toBe(runs);
});
