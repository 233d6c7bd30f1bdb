import { expect, test } from "vitest";
import { CALL_BUDGET_MS, createRedisCalls, openConnection } from "../../../src/producer/redis-call.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { latch } from "../../helpers/latch.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { createManualClock } from "../cli/manual-clock.ts";

/** Calls that may be under way on one connection. */
const MAX_CALLS = 256;

async function readyCalls() {
  const clock = createManualClock();
  const connection = openConnection(redisUrl(), "producer", clock, createLogger({ level: "silent" }));
  closeAtEnd(() => connection.close());
  expect(await connection.whenReady(CALL_BUDGET_MS)).toBe(true);
  /** The timers of this connection as soon as its time has gone on. */
  const timersAfter = async (ms: number) => {
    for (let passedMs = 0; passedMs < ms; passedMs += 50) {
      clock.advance(50);
      await new Promise(setImmediate);
    }
    return clock.pending;
  };
  return { clock, connection, ...createRedisCalls(connection), timersAfter };
}

test("a wait for the connection leaves no timer, which would keep its process awake", async () => {
  const { clock } = await readyCalls();
  expect(clock.pending).toBe(0);
});

test("an answered call leaves no timer, which would keep its process awake", async () => {
  const { clock, connection, call } = await readyCalls();
  expect(await call(({ read }) => read(() => connection.redis.ping()))).toBe("PONG");
  expect(clock.pending).toBe(0);
});

test("a line of calls that is over is watched no more", async () => {
  const { connection, call, timersAfter } = await readyCalls();
  const free = latch();
  const first = Array.from({ length: MAX_CALLS }, () => call(() => free.opened));
  const last = call(({ read }) => read(() => connection.redis.ping()));
  free.open();
  expect([...(await Promise.all(first)), await last].at(-1)).toBe("PONG");
  expect(await timersAfter(2 * CALL_BUDGET_MS)).toBe(0);
});
