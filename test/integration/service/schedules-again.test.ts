/** Guarantee: a schedule that is made again as it was, as by a program that starts again, loses nothing that has come due. */
import { expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import type { Parent } from "../../../src/producer/parent.ts";
import { createIntake } from "../../../src/service/intake/intake.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { started } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const ADDRESS = { tenant: "default", parentId: "planner-7" };
const OFTEN = { schedule_id: "often", every_ms: 3_600_000, prompt: "say hello" };

async function startIntake(stage: Stage): Promise<void> {
  const logger = createLogger({ level: "silent" });
  const intake = createIntake({ redisUrl: stage.url, prefix: stage.prefix, client: stage.client(), logger });
  closeAtEnd(() => intake.stop());
  await intake.start();
}

/** A schedule that comes due in so many seconds, and then tomorrow. */
function dailyIn(seconds: number) {
  const dueMs = Math.ceil(Date.now() / 1_000 + seconds) * 1_000;
  const due = new Date(dueMs);
  const cron = `${due.getUTCSeconds()} ${due.getUTCMinutes()} ${due.getUTCHours()} * * *`;
  return { dueMs, wish: { schedule_id: "daily", cron, prompt: "say hello" } };
}

test.for<[string, (parent: Parent, wish: ReturnType<typeof dailyIn>["wish"]) => Promise<unknown>]>([
  ["made again as it was", (parent, wish) => parent.schedule(wish)],
  ["resumed, although it was not paused", (parent) => parent.resumeSchedule("daily")],
])("what came due while no worker lived begins once, though its schedule is %s", async ([, again]) => {
  const stage = await openStage();
  const parent = stage.parent();
  const { dueMs, wish } = dailyIn(1);
  await parent.schedule(wish);
  await until(() => Date.now() > dueMs);
  await again(parent, wish);
  await startIntake(stage);
  await until(async () => (await parent.list()).length === 1);
  expect(await parent.list()).toMatchObject([{ agent_id: "daily" }]);
  const [{ next_at = "" } = {}] = await parent.schedules();
  expect(Date.parse(next_at)).toBeGreaterThan(dueMs + 3_600_000);
});

test("an interval goes on while its schedule is made again, and begins anew when its schedule is another", async () => {
  const stage = await openStage();
  const parent = stage.parent();
  const { next_at = "" } = await parent.schedule(OFTEN);
  await until(() => Date.now() > Date.parse(next_at) - OFTEN.every_ms + 2);
  expect(await parent.schedule(OFTEN)).toMatchObject({ next_at });
  const other = await parent.schedule({ ...OFTEN, prompt: "say goodbye" });
  expect(Date.parse(other.next_at ?? "")).toBeGreaterThan(Date.parse(next_at));
});

test("a schedule that is made again replaces what a dead call has left of another form in the queue", async () => {
  const stage = await openStage();
  const parent = stage.parent();
  await parent.schedule(OFTEN);
  const { intakeQueue } = await internalsOf(await started(stage.client())).open();
  const { tenant, parentId } = ADDRESS;
  const name = `${tenant}/${parentId}/often`;
  const template = () =>
    stage.redis.hmget(stage.keys.intakeJob(`repeat:${name}`), "every", "pattern", "tz", "data");
  const right = await template();
  const [startDate, data] = [Date.now(), JSON.parse(right[3] ?? "{}")];
  for (const [rhythm, prompt] of [
    [{ every: OFTEN.every_ms, startDate }, "the old work"],
    [{ every: 7_200_000, startDate }, OFTEN.prompt],
    [{ pattern: "0 7 * * 1", tz: "UTC" }, OFTEN.prompt],
  ] as const) {
    await intakeQueue.repeat(name, rhythm, { ...data, prompt });
    expect(await template()).not.toEqual(right);
    await parent.schedule(OFTEN);
    expect(await template()).toEqual(right);
  }
});
