/** A parent whose line to Redis is slow: each answer comes 150 ms after its command. */
import { expect, test } from "vitest";
import { openStage } from "../../stage/stage.ts";

/** Each way, as to another continent. */
const ONE_WAY_MS = 75;

test("a schedule is set, changed, paused, resumed and removed over a line whose answers take 150 ms, on one connection", async () => {
  const { parent, proxy } = await openStage({ redis: "own", proxied: true });
  const planner = parent();
  await planner.list();
  await planner.schedules();
  const connections = proxy.counts.accepted;
  proxy.setLatency(ONE_WAY_MS);
  const at = new Date(Date.now() + 3_600_000);
  await planner.schedule({ schedule_id: "morning", cron: "0 7 * * *", prompt: "Which tests failed?" });
  await planner.schedule({ schedule_id: "morning", at, prompt: "Which tests failed?" });
  expect(await planner.pauseSchedule("morning")).toMatchObject({ paused: true });
  expect(await planner.resumeSchedule("morning")).toMatchObject({ paused: false, next_at: at.toISOString() });
  await planner.unschedule("morning");
  expect(await planner.schedules()).toEqual([]);
  expect(proxy.counts.accepted).toBe(connections);
});
