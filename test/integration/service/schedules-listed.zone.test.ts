/** Guarantee: only a schedule with a pattern has a time zone: another one could not be made again from what is listed. */
import { expect, test } from "vitest";
import { openStage } from "../../stage/stage.ts";

test("a schedule by an interval or for one time is listed without a time zone", async () => {
  const parent = (await openStage()).parent();
  await parent.schedule({ schedule_id: "often", every_ms: 60_000, prompt: "say hello" });
  await parent.schedule({ schedule_id: "once", at: "2100-01-01T00:00:00Z", prompt: "say hello" });
  const listed = await parent.schedules();
  expect(listed.map(({ schedule_id }) => schedule_id).sort()).toEqual(["often", "once"]);
  for (const each of listed) expect(each).not.toHaveProperty("tz");
});
