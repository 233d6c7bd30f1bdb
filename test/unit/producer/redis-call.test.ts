import { expect, test } from "vitest";
import { CALL_BUDGET_MS, createRedisCalls, openConnection } from "../../../src/producer/redis-call.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { redisUrl, uniquePrefix } from "../../helpers/redis.ts";
import { createManualClock } from "../cli/manual-clock.ts";

const turn = () => new Promise((resolve) => setImmediate(resolve));

test("a hint that is not answered is waited for as long as its call has time, and no longer", async () => {
  const clock = createManualClock();
  const connection = openConnection(redisUrl(), "producer", clock, createLogger({ level: "silent" }));
  closeAtEnd(() => connection.close());
  let isOver = false;
  const call = createRedisCalls(connection).run(({ hint }) => hint(() => new Promise(() => {})));
  void call.then(() => {
    isOver = true;
  });
  await turn();
  clock.advance(CALL_BUDGET_MS - 100);
  await turn();
  expect(isOver).toBe(false);
  clock.advance(200);
  await turn();
  expect(isOver).toBe(true);
});

test("a call whose second change is refused says that something may have been done, and what makes it safe", async () => {
  const connection = openConnection(redisUrl(), "producer", systemClock, createLogger({ level: "silent" }));
  closeAtEnd(() => connection.close());
  const { run } = createRedisCalls(connection);
  const key = uniquePrefix();
  const repeat = { what: "the schedule", key: { schedule_id: "day" } };
  const refusedChange = () => connection.redis.incr(key);
  const both = run(async ({ write }) => {
    await write(repeat, () => connection.redis.set(key, "no number", "PX", 60_000));
    await write(repeat, refusedChange);
  });
  await expect(both).rejects.toMatchObject({ code: "outcome_unknown", details: { schedule_id: "day" } });
  await expect(run(({ write }) => write(repeat, refusedChange))).rejects.toMatchObject({
    code: "redis_unavailable",
  });
});
