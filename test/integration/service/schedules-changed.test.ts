/**
 * Guarantee: calls on one schedule that come at once undo nothing of each other, and a single schedule that has run does not run
 * again.
 */
import { expect, test, vi } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { createIntake } from "../../../src/service/intake/intake.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { loadScripts } from "../../../src/shared/redis/scripts.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { refusal, testParent } from "../../helpers/parents.ts";
import { keysLike } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const ADDRESS = { tenant: "default", parentId: "planner-7", uid: "" };
const OLD = { schedule_id: "often", every_ms: 3_600_000, prompt: "the old work" };
const NEW = { ...OLD, every_ms: 7_200_000, prompt: "the new work" };
const now = () => new Date().toISOString();

async function startIntake(stage: Stage): Promise<void> {
  const logger = createLogger({ level: "silent" });
  const intake = createIntake({ redisUrl: stage.url, prefix: stage.prefix, client: stage.client(), logger });
  closeAtEnd(() => intake.stop());
  await intake.start();
}

/** A parent of its own client; the first time that it has read the schedule, `meanwhile` happens before it goes on. */
async function readerOf(stage: Stage, meanwhile: () => Promise<unknown>) {
  const client = stage.client();
  const { redis } = await internalsOf(client).open();
  const hget = redis.hget.bind(redis);
  vi.spyOn(redis, "hget").mockImplementationOnce(async (...args) => {
    const text = await hget(...args);
    await meanwhile();
    return text;
  });
  return testParent(client);
}

async function untilJobEnded({ redis, keys }: Stage): Promise<void> {
  const [job = ""] = await keysLike(redis, `${keys.intakeJob("at-")}${"[0-9a-f]".repeat(32)}`);
  await until(async () => (await redis.hexists(job, "finishedOn")) === 1);
}

/** A single schedule whose task has begun and ended, acked so long ago that no request key is left of it. */
async function runOnce(stage: Stage) {
  const parent = stage.parent();
  await stage.startWorker();
  await startIntake(stage);
  const wish = { schedule_id: "once", at: now(), prompt: "say hello" };
  await parent.schedule(wish);
  for await (const entry of parent.replies()) {
    await entry.ack();
    break;
  }
  await untilJobEnded(stage);
  const requests = stage.keys.parent(ADDRESS).request("");
  await until(async () => (await keysLike(stage.redis, `${requests}*`)).length === 0);
  return wish;
}

const begun = async (stage: Stage) =>
  Number(await stage.redis.hget(stage.keys.parent(ADDRESS).registry, "#once"));

test.for([
  ["pauses", { paused: true }],
  ["resumes", { paused: false }],
] as const)("a schedule that is replaced while another call %s it stays replaced", async ([, { paused }]) => {
  const stage = await openStage();
  const parent = stage.parent();
  await parent.schedule(OLD);
  const other = await readerOf(stage, () => parent.schedule(NEW));
  await (paused ? other.pauseSchedule("often") : other.resumeSchedule("often"));
  expect(await parent.schedules()).toMatchObject([{ ...NEW, paused }]);
});

test("a single schedule that is made anew while a list removes the one that has run stays", async () => {
  const stage = await openStage({ timing: { ...TIMING, keptAfterAckMs: 1 } });
  await runOnce(stage);
  const at = "2100-01-01T00:00:00.000Z";
  const anew = () => stage.parent().schedule({ schedule_id: "once", at, prompt: "say hello" });
  const client = stage.client();
  const { intakeQueue } = await internalsOf(client).open();
  const stateOf = intakeQueue.stateOf.bind(intakeQueue);
  vi.spyOn(intakeQueue, "stateOf").mockImplementationOnce(async (id) => {
    const state = await stateOf(id);
    await anew();
    return state;
  });
  expect(await testParent(client).schedules()).toMatchObject([{ at }]);
  expect(await stage.parent().schedules()).toMatchObject([{ at }]);
});

test.for(["pauseSchedule", "resumeSchedule"] as const)(
  "a single schedule that has run is unknown to %s, and does not run again",
  async (call) => {
    const stage = await openStage({ timing: { ...TIMING, keptAfterAckMs: 1 } });
    await runOnce(stage);
    const unknown = refusal("unknown_schedule", /no schedule "once"/);
    await expect(stage.parent()[call]("once")).rejects.toMatchObject(unknown);
    expect(await stage.parent().schedules()).toEqual([]);
  },
);

test("a single schedule that has run, and is made again as it was, does not run again; made in another way it is past", async () => {
  const stage = await openStage({ timing: { ...TIMING, keptAfterAckMs: 1 } });
  const wish = await runOnce(stage);
  const client = stage.client();
  const { clock, redis } = await internalsOf(client).open();
  const late = vi.spyOn(clock, "now").mockReturnValue(Date.now() + 120_000);
  closeAtEnd(() => void late.mockRestore());
  const parent = testParent(client);
  expect(await parent.schedule(wish)).toMatchObject(wish);
  await expect(parent.schedule({ ...wish, prompt: "say more" })).rejects.toMatchObject(
    refusal("invalid_input", /is past/),
  );
  const queue = stage.keys.intakeJob("");
  const queued = [redis.llen(`${queue}wait`), redis.llen(`${queue}active`), redis.zcard(`${queue}delayed`)];
  expect([...(await Promise.all(queued)), await begun(stage)]).toEqual([0, 0, 0, 1]);
});

test("a single schedule that is made after a list has removed the one of its name and time runs", async () => {
  const stage = await openStage({ timing: { ...TIMING, keptAfterAckMs: 1 } });
  const wish = await runOnce(stage);
  const client = stage.client();
  const { clock } = await internalsOf(client).open();
  // A second behind the first one, however long its run took.
  const soon = vi.spyOn(clock, "now").mockReturnValue(Date.parse(wish.at) + 1_000);
  closeAtEnd(() => void soon.mockRestore());
  const parent = testParent(client);
  expect(await parent.schedules()).toEqual([]);
  await parent.schedule({ ...wish, prompt: "say more" });
  await until(async () => (await begun(stage)) === 2);
});

test("a single schedule that was paused while its task began does not run again when it is resumed", async () => {
  const stage = await openStage({ timing: { ...TIMING, keptAfterAckMs: 1 } });
  await runOnce(stage);
  // As a pause leaves it that came after the check of the job, and before its end.
  const { schedules } = stage.keys.parent(ADDRESS);
  const made = JSON.parse((await stage.redis.hget(schedules, "once")) ?? "");
  await stage.redis.hset(schedules, "once", JSON.stringify({ ...made, paused: true }));
  await expect(stage.parent().resumeSchedule("once")).rejects.toMatchObject({ code: "unknown_schedule" });
  expect(await begun(stage)).toBe(1);
});

test("a single schedule whose job found it paused, and that is resumed by now, gets its job from the list", async () => {
  const stage = await openStage();
  const parent = stage.parent();
  await parent.schedule({ schedule_id: "once", at: now(), prompt: "say hello" });
  const { schedules } = stage.keys.parent(ADDRESS);
  const made = JSON.parse((await stage.redis.hget(schedules, "once")) ?? "");
  const put = (paused: boolean) => stage.redis.hset(schedules, "once", JSON.stringify({ ...made, paused }));
  await put(true);
  await startIntake(stage);
  await untilJobEnded(stage);
  // As a resume leaves it whose removal of the job came while a process had the job in hand.
  await put(false);
  expect(await parent.schedules()).toMatchObject([{ schedule_id: "once", paused: false }]);
  await until(async () => (await begun(stage)) === 1);
});

test("a change of a schedule whose answer was lost is answered the same, and a removal too", async () => {
  const stage = await openStage();
  const { run } = loadScripts(stage.redis, stage.keys, TIMING);
  const change = (input: { seen?: string; json?: string }) =>
    run("schedule", ADDRESS, { schedule_id: "often", ...input });
  expect(await change({ json: "1" })).toEqual({ status: "stored" });
  expect(await change({ seen: "1", json: "2" })).toEqual({ status: "stored" });
  expect(await change({ seen: "1", json: "2" })).toEqual({ status: "stored" });
  expect(await change({ seen: "1", json: "3" })).toEqual({ status: "changed" });
  expect(await change({ seen: "1" })).toEqual({ status: "changed" });
  expect(await change({ seen: "2" })).toEqual({ status: "removed" });
  expect(await change({ seen: "2" })).toEqual({ status: "removed" });
});
