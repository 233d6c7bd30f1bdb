/** Guarantee: a worker whose subscription Redis refuses for a while, because a script keeps it busy, has one as soon as Redis takes it. */
import { EventEmitter } from "node:events";
import { expect, test } from "vitest";
import type { RedisClient } from "../../../../src/shared/redis/connection/connection.ts";
import { createWorkerHints } from "../../../../src/worker/health/worker-hints.ts";
import type { LeaseKeeper } from "../../../../src/worker/run/lease.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

const BUSY = new Error("BUSY Redis is busy running a script.");

test("a subscription that is refused when the connection is back is tried again, and runs are checked until then", async () => {
  const clock = handClock();
  let isBusy = false;
  let asked = 0;
  let checks = 0;
  const redis = Object.assign(new EventEmitter(), {
    status: "ready",
    ping: async () => "PONG",
    subscribe: async () => {
      asked += 1;
      if (isBusy) throw BUSY;
    },
    disconnect: () => {},
  });
  const held = new Map([["u", { renew: async () => void checks++ }]]);
  const leases = { held } as unknown as LeaseKeeper;
  const hints = createWorkerHints({
    redis: redis as unknown as RedisClient,
    channel: "hints",
    leases,
    onLimiter: () => {},
    canAsk: () => true,
    clock,
  });
  const passed = async (ms: number) => {
    clock.advance(ms);
    await new Promise(setImmediate);
    return { asked, checks, isAlive: hints.isAlive };
  };
  await hints.start();
  expect(await passed(0)).toEqual({ asked: 1, checks: 1, isAlive: true });
  isBusy = true;
  redis.status = "connecting";
  redis.emit("close");
  expect(await passed(500)).toEqual({ asked: 1, checks: 3, isAlive: false });
  redis.status = "ready";
  redis.emit("ready");
  expect(await passed(500)).toEqual({ asked: 3, checks: 4, isAlive: false });
  isBusy = false;
  expect(await passed(500)).toEqual({ asked: 4, checks: 6, isAlive: true });
  expect(await passed(2_000)).toEqual({ asked: 4, checks: 6, isAlive: true });
  hints.stop();
});
