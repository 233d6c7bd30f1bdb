/** Guarantee: a task that is over is told of no wait any more. */
import { expect, test } from "vitest";
import { CHECK_MS, type TaskWaitParts, watchTaskWaits } from "../../../src/producer/task-wait-reasons.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { latch } from "../../helpers/latch.ts";

test("a task that ends while its record is read is not told what it waited for", async () => {
  const read = latch<object>();
  const clock = handClock();
  const parts = {
    clock,
    logger: undefined,
    store: { record: () => read.opened },
    workers: { isAnyLive: async () => true },
    pause: { state: async () => undefined },
    read: (ask: () => unknown) => ask(),
  } as unknown as TaskWaitParts;
  const told: unknown[] = [];
  const forget = watchTaskWaits(parts).watch(
    { tenant: "t", parentId: "p", uid: "sa-0" },
    (wait) => told.push(wait),
    true,
  );
  clock.advance(CHECK_MS);
  await new Promise(setImmediate);
  forget();
  read.open({
    ...{ agent_id: "a", name: "a", status: "queued", run: 1, created_at: 1, deadline: 8.64e15 + 1 },
    ...{ spec: { model: "m", limits: {} }, not_before: 8.64e15, provider_wait_since: 1 },
    provider_wait: { provider: "offline", reason: "overloaded" },
  });
  await new Promise(setImmediate);
  expect(told).toEqual([]);
});
