/** What a worker tells of a subscription that Redis refuses: how, and only while it does. */
import { EventEmitter } from "node:events";
import { expect, test } from "vitest";
import type { RedisClient } from "../../../../src/shared/redis/connection/connection.ts";
import { createWorkerHints } from "../../../../src/worker/health/worker-hints.ts";
import type { LeaseKeeper } from "../../../../src/worker/run/lease.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

test("a refusal is told until Redis takes the subscription, or the connection ends", async () => {
  const clock = handClock();
  let answer = async () => {};
  const redis = Object.assign(new EventEmitter(), {
    status: "ready",
    ping: async () => "PONG",
    subscribe: () => answer(),
    disconnect: () => {},
  });
  const hints = createWorkerHints({
    redis: redis as unknown as RedisClient,
    channel: "saq:hints",
    leases: { held: new Map() } as unknown as LeaseKeeper,
    onLimiter: () => {},
    canAsk: () => true,
    clock,
  });
  const told = async () => {
    await new Promise(setImmediate);
    return hints.refusal();
  };
  const end = () => {
    redis.status = "close";
    redis.emit("close");
    return told();
  };
  const reconnect = () => {
    redis.status = "ready";
    redis.emit("ready");
    return told();
  };
  const refuse = async () => {
    throw new Error("NOPERM No permissions to access a channel");
  };
  await hints.start();
  answer = refuse;
  expect([await told(), await end()]).toEqual([undefined, undefined]);
  expect(await reconnect()).toContain("the channel saq:hints (NOPERM ");
  answer = async () => {};
  clock.advance(500);
  expect(await told()).toBeUndefined();
  answer = refuse;
  await end();
  expect(await reconnect()).toContain("NOPERM");
  expect(await end()).toBeUndefined();
  answer = async () => {
    redis.status = "close";
    throw new Error("Connection is closed.");
  };
  expect(await reconnect()).toBeUndefined();
  hints.stop();
});
