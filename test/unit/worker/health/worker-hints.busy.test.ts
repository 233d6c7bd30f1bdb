/** Guarantee: a worker that starts while a script keeps Redis busy waits for its subscription, as it waits for Redis. */
import { EventEmitter } from "node:events";
import { expect, test } from "vitest";
import type { RedisClient } from "../../../../src/shared/redis/connection/connection.ts";
import { createWorkerHints } from "../../../../src/worker/health/worker-hints.ts";
import type { LeaseKeeper } from "../../../../src/worker/run/lease.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

function scene(refusals: string[]) {
  const clock = handClock();
  const redis = Object.assign(new EventEmitter(), {
    status: "ready",
    ping: async () => "PONG",
    subscribe: async () => {
      const refusal = refusals.shift();
      if (refusal !== undefined) throw new Error(refusal);
    },
    disconnect: () => {},
  });
  const hints = createWorkerHints({
    redis: redis as unknown as RedisClient,
    channel: "hints",
    leases: { held: new Map() } as unknown as LeaseKeeper,
    onLimiter: () => {},
    canAsk: () => true,
    clock,
  });
  return { clock, hints };
}

test("a start whose subscription is refused because Redis is busy ends when Redis takes it", async () => {
  const { clock, hints } = scene(Array(2).fill("BUSY Redis is busy running a script."));
  const ended: unknown[] = [];
  void hints.start().then(
    () => ended.push("started"),
    (error: unknown) => ended.push(error),
  );
  for (let tries = 0; tries < 2; tries++) {
    await new Promise(setImmediate);
    expect([ended, hints.isAlive]).toEqual([[], false]);
    clock.advance(500);
  }
  await new Promise(setImmediate);
  expect([ended, hints.isAlive]).toEqual([["started"], true]);
  hints.stop();
});

test("a start whose subscription is refused for good rejects", async () => {
  const { hints } = scene(["NOPERM No permissions to access a channel"]);
  await expect(hints.start()).rejects.toMatchObject({ code: "invalid_config" });
  hints.stop();
});
