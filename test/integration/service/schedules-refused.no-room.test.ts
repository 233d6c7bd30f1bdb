/** Guarantee: what came due while its parent had no room waits for a day; then it is refused, however late its next time is. */
import { expect, test } from "vitest";
import { createJobTaker } from "../../../src/service/intake/jobs.ts";
import { createIntakeQuota } from "../../../src/service/intake/quota.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { openStage } from "../../stage/stage.ts";

const HOUR_MS = 3_600_000;

test("a weekly task without room for a day is refused, and its parent is told; before that it is tried again", async () => {
  const stage = await openStage();
  const parent = stage.parent("planner-7");
  for (let n = 0; n < 10; n++) await parent.spawn({ name: "Idle" });
  await parent.schedule({ schedule_id: "weekly", every_ms: 7 * 24 * HOUR_MS, prompt: "say hello" });
  const [client, logger] = [stage.client(), createLogger({ level: "silent" })];
  const { take } = createJobTaker({ client, quota: createIntakeQuota(client, handClock(), logger), logger });
  const dueMs = Date.now() + 24 * HOUR_MS;
  const data = { name: "weekly", parent_id: "planner-7", prompt: "say hello", reply: "channel" };
  const afterHours = (hours: number) =>
    take({
      ...{ id: `repeat:default/planner-7/weekly:${dueMs}`, data },
      wait: { since_ms: Date.now() - hours * HOUR_MS },
    });
  const { replies } = stage.keys.parent({ tenant: "default", parentId: "planner-7" });
  expect(await afterHours(23)).toMatchObject({ status: "later", wait: { until_ms: expect.any(Number) } });
  expect(await stage.redis.xlen(replies)).toBe(0);
  expect(await afterHours(25)).toMatchObject({ status: "refused", error: { code: "quota_exceeded" } });
  expect(await stage.redis.xlen(replies)).toBe(1);
});
