/** Guarantee: a parent's schedules can always be listed, whatever their patterns and however long their texts. */
import { Queue } from "bullmq";
import { expect, test, vi } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { refusal, started, testParent } from "../../helpers/parents.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const hashOf = (stage: Stage) => stage.keys.parent({ tenant: "default", parentId: "planner-7" }).schedules;

test.for([
  ["a leap day", "0 0 29 2 *", /^20\d\d-02-29T00:00:00/],
  ["a day that one of its months has", "0 0 31 2,mar,4 *", /-03-31T00:00:00/],
  ["a day that none has, or a weekday", "0 0 31 2,4 1", /-0[24]-\d\dT00:00:00/],
  ["the last day of a month", "0 0 L 2 *", /-02-2[89]T00:00:00/],
  ["a fifth weekday of February", "0 0 * 2 1#5", /^20\d\d-02-29T00:00:00/],
] as const)("%s comes due", async ([, cron, time]) => {
  const parent = (await openStage()).parent();
  const made = await parent.schedule({ schedule_id: "rare", cron, prompt: "say hello" });
  expect(made.next_at).toMatch(time);
});

test("a stored schedule that never comes due is listed without a time and removed, and the queue is not asked for it", async () => {
  const stage = await openStage();
  const parent = stage.parent();
  await parent.schedule({ schedule_id: "never", cron: "0 0 31 1 *", prompt: "say hello" });
  const stored = JSON.parse((await stage.redis.hget(hashOf(stage), "never")) ?? "");
  await parent.unschedule("never");
  await stage.redis.hset(hashOf(stage), "never", JSON.stringify({ ...stored, cron: "0 0 31 2,4 *" }));
  const asked = vi.spyOn(Queue.prototype, "upsertJobScheduler");
  const [listed] = await parent.schedules();
  expect(listed).toMatchObject({ schedule_id: "never", paused: false });
  expect(listed).not.toHaveProperty("next_at");
  expect(asked).not.toHaveBeenCalled();
  await parent.unschedule("never");
  expect(await parent.schedules()).toEqual([]);
});

test("a hundred schedules that take four seconds to read are listed, and no call fails for want of time", async () => {
  const stage = await openStage();
  const names = Array.from({ length: 100 }, (_, n) => `s-${String(n).padStart(2, "0")}`);
  const made = names.map((schedule_id) =>
    stage.parent().schedule({ schedule_id, every_ms: 3_600_000, prompt: "say hello" }),
  );
  await Promise.all(made);
  const clock = handClock();
  const client = await started(stage.client({ clock }));
  const { redis } = await internalsOf(client).open();
  const hget = redis.hget.bind(redis);
  vi.spyOn(redis, "hget").mockImplementation((key, field) => {
    if (key === hashOf(stage)) clock.advance(40);
    return hget(key, field);
  });
  const parent = testParent(client);
  expect((await parent.schedules()).map(({ schedule_id }) => schedule_id)).toEqual(names);
  expect(clock.now()).toBeGreaterThanOrEqual(4_000);
  const wish = { schedule_id: "one-more", every_ms: 3_600_000, prompt: "say hello" };
  await expect(parent.schedule(wish)).rejects.toMatchObject(refusal("invalid_input", /has 100 schedules/));
  await parent.unschedule("s-00");
  expect(await parent.schedule(wish)).toMatchObject({ schedule_id: "one-more" });
});
