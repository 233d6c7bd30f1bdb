/** Guarantee: a single schedule counts as run only when no call can be about to add its job, nor have died before it did. */
import { expect, test } from "vitest";
import { keysLike } from "../../helpers/redis.ts";
import { openStage } from "../../stage/stage.ts";

const minutesAgo = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();

/** A parent with a single schedule that was due three hours ago, was paused then, and is resumed. */
async function resumedLate() {
  const stage = await openStage();
  const parent = stage.parent();
  const { schedules } = stage.keys.parent({ tenant: parent.tenant, parentId: parent.parentId });
  const at = new Date(Date.now() + 3_600_000).toISOString();
  await parent.schedule({ schedule_id: "late", at, prompt: "say hello" });
  await parent.pauseSchedule("late");
  const stored = async () => JSON.parse(String(await stage.redis.hget(schedules, "late")));
  const put = async (changed: object) =>
    stage.redis.hset(schedules, "late", JSON.stringify({ ...(await stored()), ...changed }));
  const passed = { at: minutesAgo(180), created_at: minutesAgo(240), written_at: minutesAgo(240) };
  await put(passed);
  await parent.resumeSchedule("late");
  const found = () => keysLike(stage.redis, `${stage.keys.intakeJob("at-")}*`);
  const jobs = async () => (await found()).length;
  const loseJob = async () => stage.redis.del(await found());
  const names = async () => (await parent.schedules()).map(({ schedule_id }) => schedule_id);
  return { put, jobs, loseJob, names };
}

test("one that was resumed behind its time gets the job that its resume did not come to add", async () => {
  const { put, jobs, loseJob, names } = await resumedLate();
  expect(await jobs()).toBe(1);
  await loseJob();
  expect(await names()).toEqual(["late"]);
  expect(await jobs()).toBe(1);
  await loseJob();
  await put({ written_at: minutesAgo(59) });
  expect(await names()).toEqual(["late"]);
});

test("one that has had no job for an hour has run: the queue forgets its jobs after that time", async () => {
  const { put, jobs, loseJob, names } = await resumedLate();
  await loseJob();
  await put({ written_at: minutesAgo(61) });
  expect(await names()).toEqual([]);
  expect(await jobs()).toBe(0);
});
