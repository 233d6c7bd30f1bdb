/** Guarantee: a schedule that was paused and resumed is the same one when it is made again, as by a program that starts again. */
import { expect, test } from "vitest";
import { keysLike } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

async function resumed(rhythm: { every_ms: number } | { at: string }) {
  const stage = await openStage();
  const parent = stage.parent("planner-7", { system: "Be brief." });
  const again = () => parent.schedule({ schedule_id: "one", prompt: "say hello", name: "Hello", ...rhythm });
  await again();
  await parent.pauseSchedule("one");
  return { stage, again, before: await parent.resumeSchedule("one") };
}

test("an interval goes on", async () => {
  const every_ms = 3_600_000;
  const { again, before } = await resumed({ every_ms });
  const { next_at = "" } = before;
  await until(() => Date.now() > Date.parse(next_at) - every_ms + 2);
  expect(await again()).toEqual(before);
});

test("a single task that has run is not begun once more", async () => {
  const { stage, again, before } = await resumed({ at: new Date().toISOString() });
  const jobs = () => keysLike(stage.redis, stage.keys.intakeJob("at-*"));
  const [job = ""] = await jobs();
  await stage.redis.hset(job, { finishedOn: "1", returnvalue: "{}" });
  expect(await again()).toEqual(before);
  expect(await jobs()).toEqual([job]);
});
