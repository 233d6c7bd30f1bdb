/** Guarantee: who takes what is due knows Redis' time, and whether a hint has come before the verb behind it. */
import { expect, test } from "vitest";
import { keysUnder } from "../../../src/shared/protocol/keys.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import type { RedisClient } from "../../../src/shared/redis/connection/connection.ts";
import { createDeadlineSet } from "../../../src/shared/redis/deadlines.ts";
import { verbRig } from "./rig.ts";

test("what is due comes with the time at which Redis handed it out, however long it is hidden from others", async () => {
  const rig = verbRig();
  await rig.deadlines.hint(rig.address(), 0);
  const before = await rig.redisNow();
  const [due] = await rig.deadlines.due(1, 60_000);
  expect(due?.nowMs).toBeGreaterThanOrEqual(before);
  expect(due?.nowMs).toBeLessThanOrEqual(await rig.redisNow());
});

test("a hint comes before the verb that is sent behind it but on a cluster, whose slots have servers of their own", () => {
  const isOrdered = (isCluster: boolean) =>
    createDeadlineSet({ isCluster } as RedisClient, keysUnder("saq"), TIMING).isOrdered;
  expect([isOrdered(false), isOrdered(true)]).toEqual([true, false]);
});
