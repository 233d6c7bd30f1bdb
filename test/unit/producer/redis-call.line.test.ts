import { expect, test } from "vitest";
import { CALL_BUDGET_MS, createRedisCalls, openConnection } from "../../../src/producer/redis-call.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { latch } from "../../helpers/latch.ts";
import { redisUrl } from "../../helpers/redis.ts";
import { createManualClock } from "../cli/manual-clock.ts";

/** Calls that may be under way on one connection. */
const MAX_CALLS = 256;

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** As many calls under way as may be; `one` ends the first of them, `all` the others. */
async function fullLine() {
  const clock = createManualClock();
  const connection = openConnection(redisUrl(), "producer", clock, createLogger({ level: "silent" }));
  closeAtEnd(() => connection.close());
  expect(await connection.whenReady(CALL_BUDGET_MS)).toBe(true);
  const { call } = createRedisCalls(connection);
  const [one, all] = [latch(), latch()];
  const first = Array.from({ length: MAX_CALLS }, (_, n) => call(() => (n === 0 ? one : all).opened));
  return { clock, call, one, all, first };
}

test("a call that comes when one of the line has begun waits for another to end", async () => {
  const { call, one, all, first } = await fullLine();
  const begun: string[] = [];
  const enter = (name: string) =>
    call(async () => {
      begun.push(name);
      await all.opened;
    });
  const waited = enter("waited");
  one.open();
  await first[0];
  await turn();
  const later = enter("came later");
  await turn();
  expect(begun).toEqual(["waited"]);
  all.open();
  await Promise.all([...first, waited, later]);
  expect(begun).toEqual(["waited", "came later"]);
});

test("a call in the line of a silent Redis is refused at the first look after the time of a call", async () => {
  const { clock, call, one, all, first } = await fullLine();
  const refused = call(async () => "begun").catch((error: Error) => error.message);
  let problem: unknown;
  void refused.then((text) => {
    problem = text;
  });
  for (let passedMs = 0; passedMs < CALL_BUDGET_MS; passedMs += 50) {
    clock.advance(50);
    await turn();
  }
  expect(problem).toMatch(/no answer within 800 ms/);
  one.open();
  all.open();
  await Promise.all(first);
});

test("calls in the line of a Redis that was never reached are refused in the time of one call", async () => {
  const clock = createManualClock();
  const nobody = "redis://127.0.0.1:1";
  const connection = openConnection(nobody, "producer", clock, createLogger({ level: "silent" }));
  closeAtEnd(() => connection.close());
  const { call } = createRedisCalls(connection);
  let refused = 0;
  const calls = Array.from({ length: 3 * MAX_CALLS }, () =>
    call(({ read }) => read(() => connection.redis.ping())).catch(() => {
      refused += 1;
    }),
  );
  for (let passedMs = 0; passedMs < CALL_BUDGET_MS; passedMs += 50) {
    clock.advance(50);
    await turn();
  }
  await turn();
  expect(refused).toBe(3 * MAX_CALLS);
  await Promise.all(calls);
});
