import type { Redis } from "ioredis";
import { expect, test } from "vitest";
import { CALL_BUDGET_MS, createRedisCalls, openConnection } from "../../../src/producer/redis-call.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { createManualClock } from "../cli/manual-clock.ts";

/** From a command to its answer. */
const TRIP_MS = 150;

const never = () => new Promise<string>(() => {});
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Calls on a line whose trips the test takes by its clock. */
async function slowLine() {
  const clock = createManualClock();
  const connection = openConnection(redisUrl(), "producer", clock, createLogger({ level: "silent" }));
  closeAtEnd(() => connection.close());
  await connection.whenReady(CALL_BUDGET_MS);
  const redis = connection.redis as Redis;
  const passes = async (ms: number) => {
    for (let passedMs = 0; passedMs < ms; passedMs += 50) {
      clock.advance(50);
      await turn();
    }
  };
  const trip = async () => {
    await passes(TRIP_MS);
    return redis.ping();
  };
  return { ...createRedisCalls(connection), redis, passes, trip };
}

test("a call that has little time left drops no socket that answers late: other calls wait for their answers there", async () => {
  const { call, redis, passes, trip } = await slowLine();
  const { stream } = redis;
  let answered = 0;
  const failed = call(async ({ read }) => {
    for (; answered < 4; answered++) await read(trip);
    await read(never);
  });
  const told = expect(failed).rejects.toMatchObject({ code: "redis_unavailable" });
  await until(() => answered === 4);
  // The time of the connection goes by steps: a few of them are lost between two commands.
  await passes(CALL_BUDGET_MS / 2 - 50);
  await told;
  expect([redis.stream === stream, stream.destroyed]).toEqual([true, false]);
});

test("a call of steps goes on as long as Redis answers each in time, and fails within the time of a call after its last answer", async () => {
  const { steps, passes, trip } = await slowLine();
  let answered = 0;
  let isOver = false;
  const failed = steps(async ({ read }) => {
    for (; answered < 8; answered++) await read(trip);
    await read(never);
  });
  const told = expect(failed).rejects.toMatchObject({ code: "redis_unavailable" });
  void told.then(() => {
    isOver = true;
  });
  await until(() => answered === 8);
  expect(8 * TRIP_MS).toBeGreaterThan(CALL_BUDGET_MS);
  await passes(CALL_BUDGET_MS / 4);
  expect(isOver).toBe(false);
  await passes(CALL_BUDGET_MS);
  await told;
});

test("a call of steps that others keep going with their changes ends all the same", async () => {
  const { steps, trip } = await slowLine();
  let answered = 0;
  const failed = steps(async ({ read }) => {
    for (; answered < 100; answered++) await read(trip);
  });
  await expect(failed).rejects.toMatchObject({ code: "redis_unavailable" });
  expect(answered * TRIP_MS).toBeGreaterThan(10 * CALL_BUDGET_MS);
});
