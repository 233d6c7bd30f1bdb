/** Guarantee: whether a job that came due is still wanted is asked of its own schedule, and costs the same however many there are. */
import { Queue } from "bullmq";
import { expect, test } from "vitest";
import { createIntake } from "../../../src/service/intake/intake.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { openMonitor } from "../../helpers/monitor.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const FUTURE = "2100-01-01T00:00:00Z";
const once = (n: number) => ({ schedule_id: `once-${n}`, at: new Date().toISOString(), prompt: `say ${n}` });

async function startIntake(stage: Stage): Promise<void> {
  const logger = createLogger({ level: "silent" });
  const intake = createIntake({ redisUrl: stage.url, prefix: stage.prefix, client: stage.client(), logger });
  closeAtEnd(() => intake.stop());
  await intake.start();
}

function openQueue(stage: Stage): Queue {
  const connection = openRedis(stage.url, "worker");
  closeAtEnd(() => closeRedis(connection));
  const queue = new Queue(stage.keys.intakeQueue, { connection, prefix: stage.keys.bullPrefix });
  closeAtEnd(() => queue.close());
  return queue;
}

const keysOf = (stage: Stage) => stage.keys.parent({ tenant: "default", parentId: "planner-7" });

/** How many agents schedules have begun. */
const begun = async (stage: Stage) => {
  const counts = Object.entries(await stage.redis.hgetall(keysOf(stage).registry));
  return counts.filter(([field]) => field.startsWith("#once")).length;
};

test("each try of a single schedule's job reads that one alone, however many its parent has", async () => {
  const stage = await openStage({ redis: "own" });
  const parent = stage.parent();
  for (let i = 0; i < 10; i += 1) await parent.spawn({ name: "Idle" });
  for (let i = 0; i < 20; i += 1) await parent.schedule(once(i));
  const read: string[][] = [];
  const monitor = await openMonitor(stage.url, (_seconds, [name = "", key, ...fields]) => {
    if (key === keysOf(stage).schedules) read.push([name.toLowerCase(), ...fields]);
  });
  closeAtEnd(() => monitor.stop());
  await startIntake(stage);
  // Each is tried, and again.
  await until(() => read.length >= 40);
  await monitor.caughtUp();
  expect(read.filter(([name, , ...more]) => name !== "hmget" || more.length > 0)).toEqual([]);
  const ids = Array.from({ length: 20 }, (_, i) => `once-${i}`);
  expect(new Set(read.map(([, id]) => id))).toEqual(new Set(ids));
  expect(await begun(stage)).toBe(0);
});

test.each([
  ["says its schedule", (data: object) => data],
  ["does not say its schedule, as one that an earlier version made", withoutSchedule],
])(
  "a single schedule's job that %s begins its task while that stands, and nothing once it was removed or made anew",
  async (_, change) => {
    const stage = await openStage();
    const parent = stage.parent();
    const queue = openQueue(stage);
    for (const n of [1, 2, 3]) await parent.schedule({ ...once(n), at: FUTURE });
    const jobs = await queue.getDelayed();
    expect(jobs.map(({ data }) => data.schedule_id).sort()).toEqual(["once-1", "once-2", "once-3"]);
    await parent.unschedule("once-2");
    await parent.schedule({ ...once(3), at: "2101-01-01T00:00:00Z" });
    // As they are left by calls that died before they took the jobs of before away.
    const anew = jobs.map(({ name, id = "", data }) => ({ name, id, data: change(data) }));
    for (const { id } of anew) await queue.remove(id);
    for (const { name, id, data } of anew) await queue.add(name, data, { jobId: id });
    await startIntake(stage);
    await until(async () => (await queue.getCompletedCount()) === 3);
    expect(await begun(stage)).toBe(1);
    const values = await Promise.all(anew.map(async ({ id }) => (await queue.getJob(id))?.returnvalue));
    expect(values.filter((value) => value.begun === false)).toHaveLength(2);
  },
);

function withoutSchedule(data: object): object {
  return { ...data, schedule_id: undefined };
}

test("a job of another program names no schedule: it is refused", async () => {
  const stage = await openStage();
  const queue = openQueue(stage);
  await queue.add(
    "task",
    { parent_id: "planner-7", prompt: "say hello", schedule_id: "daily" },
    { jobId: "mine" },
  );
  await startIntake(stage);
  await until(async () => (await queue.getFailedCount()) === 1);
  expect((await queue.getJob("mine"))?.failedReason).toMatch(/has no field "schedule_id"/);
});

const SECONDLY = { schedule_id: "often", every_ms: 1_000, prompt: "the old work" };
const HOURLY = { ...SECONDLY, every_ms: 3_600_000, prompt: "the new work" };

/** A schedule that has come due while its parent has no room; then `change`, and then there is room. Returns what is begun. */
async function begunAfter(change: (stage: Stage) => Promise<unknown>) {
  const stage = await openStage();
  const parent = stage.parent();
  const idle: string[] = [];
  for (let i = 0; i < 10; i += 1) idle.push((await parent.spawn({ name: "Idle" })).agent_id);
  await startIntake(stage);
  await parent.schedule(SECONDLY);
  const queue = openQueue(stage);
  const waits = async () =>
    (await queue.getDelayed()).some((job) => job.attemptsStarted > 0 && job.data.prompt === SECONDLY.prompt);
  await until(waits, { what: "a task that has come due to wait for room" });
  // No job is in the middle of a try, which has asked for its schedule already.
  await queue.pause();
  await until(async () => (await queue.getActiveCount()) === 0);
  await change(stage);
  for (const agentId of idle) await parent.destroy(agentId);
  await queue.resume();
  // Each job that was due is over: the queue has none but the next one.
  await until(async () => (await queue.getDelayed()).every((job) => job.attemptsStarted === 0));
  await until(async () => (await queue.getActiveCount()) + (await queue.getWaitingCount()) === 0);
  return (await parent.list()).map(({ agent_id }) => agent_id);
}

test.for([
  ["replaced", (stage: Stage) => stage.parent().schedule(HOURLY)],
  [
    "removed and made anew",
    async (stage: Stage) => {
      await stage.parent().unschedule("often");
      await stage.parent().schedule(HOURLY);
    },
  ],
] as const)(
  "what came due before its schedule was %s begins nothing, though it waited for room",
  async ([, change]) => {
    expect(await begunAfter(change)).toEqual([]);
  },
);

test("what came due before its schedule was paused begins nothing after a resume", async () => {
  const schedule = { ...SECONDLY, every_ms: 3_600_000 };
  const stage = await openStage();
  const parent = stage.parent();
  await parent.schedule(schedule);
  const queue = openQueue(stage);
  const [first] = await queue.getDelayed();
  const dueMs = Date.now() - 1_000;
  const id = `repeat:${parent.tenant}/${parent.parentId}/often:${dueMs}`;
  await parent.pauseSchedule("often");
  await parent.resumeSchedule("often");
  // As it waited in the queue all the time, for room or for a worker.
  await queue.add("task", first?.data, { jobId: id });
  await startIntake(stage);
  await until(async () => (await queue.getJob(id))?.finishedOn !== undefined);
  expect(await parent.list()).toEqual([]);
});

test.for([
  [
    "made again without a change",
    (stage: Stage, made: object) => Reflect.apply(stage.parent().schedule, null, [made]),
  ],
  ["resumed though it is not paused", (stage: Stage) => stage.parent().resumeSchedule("often")],
] as const)("what came due before its schedule was %s stays due", async ([, again]) => {
  const schedule = { ...SECONDLY, every_ms: 3_600_000 };
  const stage = await openStage();
  const parent = stage.parent();
  await parent.schedule(schedule);
  const queue = openQueue(stage);
  const [first] = await queue.getDelayed();
  const dueMs = Date.now();
  await until(() => Date.now() > dueMs);
  await again(stage, schedule);
  await queue.add("task", first?.data, {
    jobId: `repeat:${parent.tenant}/${parent.parentId}/often:${dueMs}`,
  });
  await startIntake(stage);
  await until(async () => (await parent.list()).length === 1);
});
