/** Tasks that come due by themselves: by a pattern, in an interval, once; listed, paused, removed; missed ones run once. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { Queue } from "bullmq";
import { expect, test, vi } from "vitest";
import { z } from "zod";
import { internalsOf } from "../../../src/producer/client.ts";
import { beginTask } from "../../../src/producer/detached-task.ts";
import type { Parent, ParentOptions } from "../../../src/producer/parent.ts";
import { TaskInput, withJsonSchema } from "../../../src/producer/spawn-input.ts";
import { createIntake } from "../../../src/service/intake/intake.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { IntakeInput } from "../../../src/shared/protocol/intake.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { closeRedis, openRedis } from "../../../src/shared/redis/connection/connection.ts";
import { loadScripts } from "../../../src/shared/redis/scripts.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { refusal, testParent } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const execute = promisify(execFile);

/** A time that has just come. */
const now = () => new Date().toISOString();
const LONG = "x".repeat(262_144);
const TRACEPARENT = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01";

async function startIntake(stage: Stage) {
  const logger = createLogger({ level: "silent" });
  const intake = createIntake({ redisUrl: stage.url, prefix: stage.prefix, client: stage.client(), logger });
  closeAtEnd(() => intake.stop());
  await intake.start();
  return intake;
}

/** So many entries of the parent's channel, acked. */
async function take(stage: Stage, count: number) {
  const entries = [];
  for await (const entry of stage.parent().replies()) {
    await entry.ack();
    if (entries.push(entry) === count) break;
  }
  return entries;
}

const OPTIONS = {
  model: "claude-sonnet-5-5",
  fallback_models: ["claude-opus-5", "offline-1"],
  system: "Be brief.",
  tools: ["read_file", "grep", "write_file"],
  disallowed_tools: ["write_file"],
  skills: ["reports", "letters"],
  hooks: ["audit"],
  permissions: { deny: ["grep(secret*)"] },
  limits: { max_turns: 7, max_cost_usd: 1 },
  alerts: { turns: 3 },
  budgets: { agent: { max_cost_usd: 2 }, parent: { max_cost_usd: 3 } },
  transcript_ms: 60_000,
  effort: "medium",
  task_budget: 50_000,
  idle_ms: 5_000,
  answer_within_ms: 6_000,
} as const satisfies Partial<ParentOptions>;

const NARROWER = {
  description: "a task",
  model: "claude-opus-5",
  fallback_models: ["offline-1"],
  system: "Be long.",
  tools: ["read_file"],
  disallowed_tools: ["grep"],
  skills: ["letters"],
  hooks: ["more"],
  permissions: { allow: ["read_file"] },
  limits: { max_turns: 5 },
  alerts: { turns: 2 },
  transcript_ms: 30_000,
  effort: "low",
  task_budget: 30_000,
  output_schema: z.object({ answer: z.string() }),
} as const;

/** What is in force for a task that the parent begins itself, and for the same that comes due. */
async function inForce(stage: Stage, parent: Parent, task: object) {
  const wish = { prompt: "say hello", ...task };
  const { call, store } = await internalsOf(stage.client()).open();
  const live = () => call(({ read }) => read(() => store.liveRecords(parent)));
  await beginTask(parent, withJsonSchema({ ...wish, name: "by-hand" }, "task").input);
  await Reflect.apply(parent.schedule, parent, [
    { ...wish, name: "by-time", schedule_id: "once", at: now() },
  ]);
  await startIntake(stage);
  await until(async () => (await live()).length === 2);
  const specs = (await live()).map(({ name, spec }) => [name, spec]);
  return Object.fromEntries(specs);
}

test.for([
  ["the options of its parent", OPTIONS, {}],
  ["what the task itself may say", {}, NARROWER],
  ["both", OPTIONS, NARROWER],
  [
    "a definition under its parent's options",
    { system: "Be brief.", model: "offline-1" },
    { agent: "explorer" },
  ],
  ["nothing, where a field is null or undefined", OPTIONS, { model: undefined, system: null, limits: null }],
] as const)(
  "%s: in force for a task that comes due as for one that its parent begins",
  async ([, options, task]) => {
    const stage = await openStage();
    const specs = await inForce(stage, stage.parent("planner-7", options), task);
    expect(specs["by-time"]).toEqual(specs["by-hand"]);
  },
);

test("the options of its parent narrow what is registered when a schedule comes due, and are refused where they are wider", async () => {
  const stage = await openStage();
  const parent = stage.parent("planner-7", { limits: { max_turns: 9 }, permissions: { deny: ["grep"] } });
  await parent.schedule({ schedule_id: "narrow", at: now(), prompt: "say hello" });
  await parent.register({ permissions: { deny: ["bash"] }, limits: { max_turns: 12 }, idle_ms: 1_000 });
  await startIntake(stage);
  const { call, store } = await internalsOf(stage.client()).open();
  const live = () => call(({ read }) => read(() => store.liveRecords(parent)));
  await until(async () => (await live()).length === 1);
  expect((await live())[0]?.spec).toMatchObject({
    profile_version: 1,
    limits: { max_turns: 9 },
    idle_ms: 1_000,
    permissions: [{ deny: ["bash"] }, { deny: ["grep"] }],
  });
  await parent.register({ limits: { max_turns: 8 } });
  await expect(
    parent.schedule({ schedule_id: "wider", at: now(), prompt: "say hello" }),
  ).rejects.toMatchObject(
    refusal("invalid_input", /under version 2 of the registered profile\) refused.*max_turns 9/),
  );
});

test("each field of a task comes with the schedule, or is refused when it is made", () => {
  const lost = Object.keys(TaskInput.shape).filter((name) => !Object.hasOwn(IntakeInput.shape, name));
  expect(lost.sort()).toEqual(["files", "images", "traceparent"]);
});

const ADDRESS = { tenant: "default", parentId: "planner-7" };
const OFTEN = { schedule_id: "often", every_ms: 1_000, prompt: "say hello" };

/** Spawns as many agents as the parent may have; the answer destroys them. */
async function fillQuota(stage: Stage): Promise<() => Promise<void>> {
  const parent = stage.parent();
  const made: string[] = [];
  for (let i = 0; i < 10; i++) made.push((await parent.spawn({ name: "Idle" })).agent_id);
  return async () => {
    for (const agentId of made) await parent.destroy(agentId);
  };
}

/** How many agents the schedules `often` and `once` have begun. */
async function begun(stage: Stage): Promise<number> {
  const { registry } = stage.keys.parent(ADDRESS);
  const counts = await stage.redis.hmget(registry, "#often", "#once");
  return counts.reduce((sum, count) => sum + Number(count), 0);
}

/** How many iterations of `often` have been taken; each puts the next one into the queue. */
async function takenOnes(stage: Stage): Promise<number> {
  const { bullPrefix, intakeQueue } = stage.keys;
  const key = `${bullPrefix}:${intakeQueue}:repeat:default/planner-7/often`;
  return Number(await stage.redis.hget(key, "ic")) - 1;
}

/** Resolves when so many iterations have been taken and none is in hand: what is asked of the schedule from now on is asked anew. */
function untilPutOff(stage: Stage, iterations: number): Promise<unknown> {
  const { bullPrefix, intakeQueue } = stage.keys;
  return until(
    async () =>
      (await takenOnes(stage)) >= iterations &&
      (await stage.redis.llen(`${bullPrefix}:${intakeQueue}:active`)) === 0,
  );
}

/** How many jobs wait, are delayed or in hand, and how many schedulers there are; all at one moment. */
async function queued(stage: Stage): Promise<{ jobs: number; schedulers: number }> {
  const { bullPrefix, intakeQueue } = stage.keys;
  const queue = `${bullPrefix}:${intakeQueue}`;
  const asked = stage.redis.multi().llen(`${queue}:wait`).llen(`${queue}:active`);
  const answers = await asked.zcard(`${queue}:delayed`).zcard(`${queue}:repeat`).exec();
  const [waiting = 0, active = 0, delayed = 0, schedulers = 0] = (answers ?? []).map(([, count]) =>
    Number(count),
  );
  return { jobs: waiting + active + delayed, schedulers };
}

function untilNothingIsQueued(stage: Stage): Promise<unknown> {
  return until(
    async () => {
      const { jobs, schedulers } = await queued(stage);
      return jobs + schedulers === 0;
    },
    { what: "the jobs of schedules to end" },
  );
}

/** A parent of a client of its own, and the queue that its schedules go into. */
async function parentWithQueue(stage: Stage) {
  const client = stage.client();
  const { intakeQueue } = await internalsOf(client).open();
  return { parent: testParent(client), intakeQueue };
}

test("every_ms runs the task again and again, as separate agents, until it is paused", async () => {
  const stage = await openStage();
  const parent = stage.parent();
  await stage.startWorker();
  await startIntake(stage);
  const made = await parent.schedule({
    schedule_id: "often",
    every_ms: 1_000,
    prompt: "say hello",
    name: "Hourly",
  });
  expect(Date.parse(made.next_at ?? "")).toBeGreaterThan(Date.now() - 1_000);
  expect((await take(stage, 2)).map(({ agent_id }) => agent_id)).toEqual(["hourly", "hourly_2"]);
  expect(await parent.pauseSchedule("often")).toMatchObject({ paused: true });
  expect(await parent.schedules()).toMatchObject([{ schedule_id: "often", paused: true, every_ms: 1_000 }]);
  const delayed = `${stage.keys.bullPrefix}:${stage.keys.intakeQueue}:delayed`;
  expect(await stage.redis.zcard(delayed)).toBe(0);
  await parent.resumeSchedule("often");
  expect(await stage.redis.zcard(delayed)).toBe(1);
});

test("at runs once, also when its time has come, and is gone from the list then", async () => {
  const stage = await openStage();
  const parent = stage.parent();
  await parent.schedule({ schedule_id: "once", at: now(), prompt: "say hello" });
  expect(await parent.schedules()).toMatchObject([{ schedule_id: "once" }]);
  await stage.startWorker();
  await startIntake(stage);
  expect(await take(stage, 1)).toMatchObject([{ status: "succeeded" }]);
  await until(async () => (await parent.schedules()).length === 0);
});

test("at may be a Date, which is stored as its text, and is no Date where it is no point in time", async () => {
  const parent = (await openStage()).parent();
  const wish = { schedule_id: "once", at: new Date("2100-01-01T00:00:00Z"), prompt: "say hello" };
  const made = await parent.schedule(wish);
  expect(made.at).toBe("2100-01-01T00:00:00.000Z");
  expect(await parent.schedule(wish)).toEqual(made);
  await expect(parent.schedule({ ...wish, at: new Date(Number.NaN) })).rejects.toMatchObject({
    code: "invalid_input",
    message: expect.stringContaining("write a time such as"),
  });
});

test("a list of schedules reads each of them once, and not what their jobs bring", async () => {
  const stage = await openStage({ redis: "own" });
  const parent = stage.parent();
  const count = 4;
  for (let n = 0; n < count; n++)
    await parent.schedule({ schedule_id: `s-${n}`, every_ms: 3_600_000, prompt: LONG });
  const sent = async () =>
    Number(/total_net_output_bytes:(\d+)/.exec(await stage.observer.info("stats"))?.[1]);
  const before = await sent();
  const listed = await parent.schedules();
  const bytes = (await sent()) - before;
  expect(listed.map(({ prompt, next_at }) => [prompt.length, typeof next_at])).toEqual(
    Array.from({ length: count }, () => [LONG.length, "string"]),
  );
  expect(bytes).toBeLessThan(1.2 * count * LONG.length);
});

test("a parent has 100 schedules at most, also when many are made at once; single ones that have run make room", async () => {
  const stage = await openStage();
  const parent = stage.parent();
  const at = (i: number, time: string) =>
    parent.schedule({ schedule_id: `s${i}`, at: time, prompt: "say hello" });
  const later = "2100-01-01T00:00:00Z";
  const made = await Promise.allSettled(
    Array.from({ length: 110 }, (_, i) => at(i, i === 0 ? now() : later)),
  );
  const refused = made.filter(({ status }) => status === "rejected");
  expect(refused).toHaveLength(10);
  await expect(at(999, later)).rejects.toMatchObject(refusal("invalid_input", /100 schedules/));
  await expect(parent.schedules()).resolves.toHaveLength(100);
  await stage.startWorker();
  await startIntake(stage);
  await take(stage, 1);
  await until(async () => (await at(999, later).catch(() => undefined)) !== undefined);
  await expect(parent.schedules()).resolves.toHaveLength(100);
});

test("a schedule that was removed is not brought back by a change of it", async () => {
  const stage = await openStage();
  const scripts = loadScripts(stage.redis, stage.keys, TIMING);
  const change = { schedule_id: "gone", seen: "{}", json: '{"paused":true}' };
  const address = { tenant: stage.parent().tenant, parentId: stage.parent().parentId, uid: "" };
  expect(await scripts.run("schedule", address, change)).toEqual({ status: "changed" });
  expect(await stage.parent().schedules()).toEqual([]);
});

test("what came due several times while no worker lived runs once", async () => {
  const stage = await openStage();
  const made = await stage.parent().schedule({ schedule_id: "missed", every_ms: 1_000, prompt: "say hello" });
  const missedMs = Date.parse(made.next_at ?? "") + 4_000;
  await until(() => Date.now() > missedMs);
  const startedMs = Date.now();
  await stage.startWorker();
  await startIntake(stage);
  expect(await take(stage, 1)).toMatchObject([{ agent_id: "missed" }]);
  await stage.parent().pauseSchedule("missed");
  // One for all that were missed, and one for each second that has begun since; those that were missed would be five more.
  const since = Math.ceil((Date.now() - startedMs) / 1_000);
  const { registry } = stage.keys.parent({ tenant: "default", parentId: "planner-7" });
  expect(Number(await stage.redis.hget(registry, "#missed"))).toBeLessThanOrEqual(1 + since);
});

test("a schedule that is removed while its parent has no room begins nothing of what had come due", async () => {
  const stage = await openStage();
  const destroyAll = await fillQuota(stage);
  await startIntake(stage);
  await stage.parent().schedule(OFTEN);
  await untilPutOff(stage, 3);
  await stage.parent().unschedule("often");
  await destroyAll();
  await untilNothingIsQueued(stage);
  expect(await begun(stage)).toBe(0);
});

test("what came due several times while the parent had no room runs once", async () => {
  const stage = await openStage();
  const destroyAll = await fillQuota(stage);
  await startIntake(stage);
  await stage.parent().schedule(OFTEN);
  const without = await until(async () => {
    const taken = await takenOnes(stage);
    return taken >= 5 && taken;
  });
  await destroyAll();
  await until(async () => (await takenOnes(stage)) >= without + 2);
  await stage.parent().pauseSchedule("often");
  await untilNothingIsQueued(stage);
  const { bullPrefix, intakeQueue } = stage.keys;
  const since = (await stage.redis.zcard(`${bullPrefix}:${intakeQueue}:completed`)) - without;
  expect(await begun(stage)).toBeGreaterThan(0);
  // One for what was missed, and each that has come due since.
  expect(await begun(stage)).toBeLessThanOrEqual(1 + since);
});

test("what came due while the parent had no room is tried until there is some, before it comes due again", async () => {
  const stage = await openStage();
  const destroyAll = await fillQuota(stage);
  await startIntake(stage);
  await stage.parent().schedule({ ...OFTEN, every_ms: 3_600_000 });
  const connection = openRedis(stage.url, "worker");
  closeAtEnd(() => closeRedis(connection));
  const queue = new Queue(stage.keys.intakeQueue, { connection, prefix: stage.keys.bullPrefix });
  closeAtEnd(() => queue.close());
  const [first] = await queue.getDelayed();
  await first?.promote();
  // Tried twice: what it was told at first is known.
  await until(async () => Number((await queue.getJob(first?.id ?? ""))?.attemptsStarted) >= 2);
  await destroyAll();
  await until(async () => (await begun(stage)) === 1);
  expect(await takenOnes(stage)).toBe(1);
});

test("a schedule that a newer version wrote goes on to tick", async () => {
  const stage = await openStage();
  await stage.parent().schedule(OFTEN);
  await stage.redis.hset(stage.keys.parent(ADDRESS).schedules, "often", '{"v":99}');
  await startIntake(stage);
  await until(async () => (await begun(stage)) >= 1);
  expect(await queued(stage)).toMatchObject({ schedulers: 1 });
});

test("a pattern with H, which an earlier version took, is listed, paused and removed", async () => {
  const stage = await openStage();
  const parent = stage.parent();
  await parent.schedule({ schedule_id: "day", cron: "5 7 * * *", prompt: "say hello" });
  const { schedules } = stage.keys.parent(ADDRESS);
  const stored = String(await stage.redis.hget(schedules, "day"));
  await stage.redis.hset(schedules, "day", stored.replace("5 7 * * *", "H 7 * * *"));
  expect(await parent.schedules()).toMatchObject([{ schedule_id: "day", cron: "H 7 * * *" }]);
  expect(await parent.pauseSchedule("day")).toMatchObject({ paused: true });
  await parent.resumeSchedule("day");
  await parent.unschedule("day");
  expect(await queued(stage)).toMatchObject({ schedulers: 0 });
});

test("a schedule that is paused while its parent has no room begins nothing of what had come due", async () => {
  const stage = await openStage();
  const destroyAll = await fillQuota(stage);
  await startIntake(stage);
  await stage.parent().schedule(OFTEN);
  await untilPutOff(stage, 1);
  await stage.parent().pauseSchedule("often");
  await destroyAll();
  await untilNothingIsQueued(stage);
  expect(await begun(stage)).toBe(0);
});

test("a scheduler that was left without its schedule begins nothing and is removed when it ticks", async () => {
  const stage = await openStage();
  await stage.parent().schedule(OFTEN);
  await stage.redis.hdel(stage.keys.parent(ADDRESS).schedules, "often");
  await startIntake(stage);
  await untilNothingIsQueued(stage);
  expect(await begun(stage)).toBe(0);
});

test("a single one that came due while it was paused begins nothing until it is resumed", async () => {
  const stage = await openStage();
  const parent = stage.parent();
  await parent.schedule({ schedule_id: "once", at: now(), prompt: "say hello" });
  // As a pause leaves it whose process died before it took the job away.
  const { schedules } = stage.keys.parent(ADDRESS);
  const made = JSON.parse((await stage.redis.hget(schedules, "once")) ?? "");
  await stage.redis.hset(schedules, "once", JSON.stringify({ ...made, paused: true }));
  await startIntake(stage);
  await untilNothingIsQueued(stage);
  expect(await begun(stage)).toBe(0);
  expect(await parent.schedules()).toMatchObject([{ schedule_id: "once", paused: true }]);
  await parent.resumeSchedule("once");
  await until(async () => (await begun(stage)) === 1);
});

test("schedules are listed by their names; a paused one says no time at which it comes due", async () => {
  const parent = (await openStage()).parent();
  for (const schedule_id of ["b", "c", "a"])
    await parent.schedule({ schedule_id, at: "2100-01-01T00:00:00Z", prompt: "say hello" });
  expect(await parent.pauseSchedule("b")).not.toHaveProperty("next_at");
  const listed = await parent.schedules();
  expect(listed.map(({ schedule_id, next_at }) => [schedule_id, next_at !== undefined])).toEqual([
    ["a", true],
    ["b", false],
    ["c", true],
  ]);
});

test("a zone without a pattern is refused", async () => {
  const wish = { schedule_id: "a", every_ms: 60_000, tz: "Europe/Berlin", prompt: "say hello" };
  await expect((await openStage()).parent().schedule(wish)).rejects.toMatchObject(
    refusal("invalid_input", /tz goes with cron/),
  );
});

test("a schedule that another call removes in the middle of schedule leaves nothing that ticks", async () => {
  const stage = await openStage();
  const { parent, intakeQueue } = await parentWithQueue(stage);
  const repeat = intakeQueue.repeat.bind(intakeQueue);
  vi.spyOn(intakeQueue, "repeat").mockImplementationOnce(async (...args) => {
    await stage.parent().unschedule("often");
    return repeat(...args);
  });
  await parent.schedule(OFTEN);
  expect(await queued(stage)).toEqual({ jobs: 0, schedulers: 0 });
  expect(await parent.schedules()).toEqual([]);
});

test("a schedule that another call replaces in the middle of schedule leaves its own way in no queue", async () => {
  const stage = await openStage();
  const { parent, intakeQueue } = await parentWithQueue(stage);
  const wish = { schedule_id: "often", prompt: "say hello" };
  const last = { ...wish, at: "2100-01-02T00:00:00Z" };
  const add = intakeQueue.add.bind(intakeQueue);
  vi.spyOn(intakeQueue, "add").mockImplementationOnce(async (...args) => {
    await stage.parent().schedule(last);
    return add(...args);
  });
  await parent.schedule({ ...wish, at: "2100-01-01T00:00:00Z" });
  expect(await queued(stage)).toEqual({ jobs: 1, schedulers: 0 });

  const repeat = intakeQueue.repeat.bind(intakeQueue);
  vi.spyOn(intakeQueue, "repeat").mockImplementationOnce(async (...args) => {
    await stage.parent().schedule(last);
    return repeat(...args);
  });
  await parent.schedule({ ...wish, every_ms: 3_600_000 });
  expect(await queued(stage)).toEqual({ jobs: 1, schedulers: 0 });
  expect(await parent.schedules()).toMatchObject([{ at: last.at }]);
});

test("a schedule that has lost its scheduler in the queue gets it back when the list is asked for", async () => {
  const stage = await openStage();
  const parent = stage.parent();
  await parent.schedule({ schedule_id: "hourly", every_ms: 3_600_000, prompt: "go" });
  const scheduler = stage.keys.intakeJob(`repeat:${ADDRESS.tenant}/${ADDRESS.parentId}/hourly`);
  expect(await stage.redis.del(scheduler)).toBe(1);
  expect(await parent.schedules()).toMatchObject([{ next_at: expect.any(String) }]);
  expect(await stage.redis.exists(scheduler)).toBe(1);
});

test("of a pause and a resume at once the one that is written last counts in the queue, too", async () => {
  const stage = await openStage();
  const { parent, intakeQueue } = await parentWithQueue(stage);
  await parent.schedule(OFTEN);
  const endRepeat = intakeQueue.endRepeat.bind(intakeQueue);
  vi.spyOn(intakeQueue, "endRepeat").mockImplementationOnce(async (id) => {
    await stage.parent().resumeSchedule("often");
    return endRepeat(id);
  });
  await parent.pauseSchedule("often");
  expect(await queued(stage)).toEqual({ jobs: 1, schedulers: 1 });
  expect(await parent.schedules()).toMatchObject([{ paused: false }]);

  const repeat = intakeQueue.repeat.bind(intakeQueue);
  vi.spyOn(intakeQueue, "repeat").mockImplementationOnce(async (...args) => {
    await stage.parent().pauseSchedule("often");
    return repeat(...args);
  });
  await parent.resumeSchedule("often");
  expect(await queued(stage)).toEqual({ jobs: 0, schedulers: 0 });
  expect(await parent.schedules()).toMatchObject([{ paused: true }]);
});

test.for([
  ["one that repeats", () => ({ every_ms: 3_600_000 })],
  ["a single one", () => ({ at: "2100-01-01T00:00:00Z" })],
  ["a single one whose time has come", () => ({ at: now() })],
] as const)(
  "%s whose call died before it was in the queue comes due when the list is asked for",
  async ([, rhythm]) => {
    const stage = await openStage();
    const { parent } = await parentWithQueue(stage);
    await parent.schedule({ schedule_id: "often", prompt: "say hello", ...rhythm() });
    const { schedules } = stage.keys.parent(ADDRESS);
    const made = (await stage.redis.hget(schedules, "often")) ?? "";
    await parent.unschedule("often");
    await stage.redis.hset(schedules, "often", made);
    expect((await queued(stage)).jobs).toBe(0);
    expect(await parent.schedules()).toMatchObject([{ next_at: expect.any(String) }]);
    expect((await queued(stage)).jobs).toBe(1);
  },
);

test("cron keeps its zone, replaces itself under the same name, and is removed", async () => {
  const parent = (await openStage()).parent();
  const first = await parent.schedule({
    schedule_id: "day",
    cron: "0 7 * * *",
    tz: "Europe/Berlin",
    prompt: "a",
  });
  expect(new Date(first.next_at ?? 0).toLocaleTimeString("en-GB", { timeZone: "Europe/Berlin" })).toBe(
    "07:00:00",
  );
  await parent.schedule({ schedule_id: "day", cron: "0 8 * * *", prompt: "b" });
  expect(await parent.schedules()).toMatchObject([
    { cron: "0 8 * * *", tz: "UTC", prompt: "b", options: {} },
  ]);
  await parent.unschedule("day");
  expect(await parent.schedules()).toEqual([]);
  await expect(parent.unschedule("day")).rejects.toMatchObject(
    refusal("unknown_schedule", /no schedule "day"/),
  );
});

test("a single one that stands is written again after its time, as a call in doubt is", async () => {
  const stage = await openStage();
  const client = stage.client();
  const parent = testParent(client);
  const { clock } = await internalsOf(client).open();
  const wish = { schedule_id: "once", at: now(), prompt: "say hello" };
  const made = await parent.schedule(wish);
  const later = Date.now() + 3_600_000;
  const late = vi.spyOn(clock, "now").mockReturnValue(later);
  closeAtEnd(() => void late.mockRestore());
  await expect(parent.schedule({ ...wish, schedule_id: "another" })).rejects.toMatchObject(
    refusal("invalid_input", /is past/),
  );
  expect(await parent.schedule(wish)).toEqual(made);
});

test("a schedule is shown with all that was set of its task, without the options of its parent", async () => {
  const parent = (await openStage()).parent("planner-7", { limits: { max_turns: 9 } });
  const options = { name: "Report", tools: ["grep"], limits: { max_turns: 5 }, model: "offline-1" };
  const made = await parent.schedule({ schedule_id: "day", cron: "0 7 * * *", prompt: "a", ...options });
  expect(made).toMatchObject({ prompt: "a", options });
  expect(made.options).toEqual(options);
  expect(await parent.schedules()).toEqual([made]);
  expect(await parent.pauseSchedule("day")).toMatchObject({ prompt: "a", options });
});

test("an agent is called by its schedule, and a refusal names the schedule that came due", async () => {
  const stage = await openStage();
  const parent = stage.parent();
  await stage.startWorker();
  await parent.schedule({ schedule_id: "every.day", at: now(), prompt: "say hello" });
  await parent.schedule({ schedule_id: "named", at: now(), prompt: "say hello", name: "Report" });
  await startIntake(stage);
  expect((await take(stage, 2)).map(({ name }) => name).sort()).toEqual(["Report", "every.day"]);
  await parent.schedule({ schedule_id: "single", at: now(), prompt: "say hello", tools: ["nope"] });
  expect(await take(stage, 1)).toMatchObject([
    { error: expect.stringMatching(/^invalid_input: The schedule single came due: task refused/) },
  ]);
  await parent.schedule({ schedule_id: "often", every_ms: 1_000, prompt: "say hello", tools: ["nope"] });
  expect(await take(stage, 1)).toMatchObject([
    { error: expect.stringMatching(/^invalid_input: The schedule often came due: task refused/) },
  ]);
});

test("a schedule that is replaced comes due in its new way alone", async () => {
  const stage = await openStage();
  const parent = stage.parent();
  const queue = `${stage.keys.bullPrefix}:${stage.keys.intakeQueue}`;
  const due = () => Promise.all(["delayed", "repeat"].map((state) => stage.redis.zcard(`${queue}:${state}`)));
  const wish = { schedule_id: "one", prompt: "say hello" };
  const inAnHour = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();
  await parent.schedule({ ...wish, at: inAnHour(1) });
  await parent.schedule({ ...wish, at: inAnHour(2) });
  expect(await due()).toEqual([1, 0]);
  await parent.schedule({ ...wish, cron: "0 7 * * *" });
  expect(await due()).toEqual([1, 1]);
  await parent.schedule({ ...wish, at: inAnHour(3) });
  expect(await due()).toEqual([1, 0]);
});

test("a pattern that is none leaves the schedule of that name as it is", async () => {
  const parent = (await openStage()).parent();
  const made = await parent.schedule({ schedule_id: "day", cron: "0 7 * * *", prompt: "a" });
  const wrong = parent.schedule({ schedule_id: "day", cron: "67 99 * * *", prompt: "b" });
  await expect(wrong).rejects.toMatchObject(
    refusal("invalid_input", /cron: write five fields, or six with seconds/),
  );
  expect(await parent.schedules()).toEqual([made]);
});

test("a pattern is accepted in whatever zone its process is, also in one where that day has no midnight", async () => {
  const code = `
    import { createIntakeQueue } from "${import.meta.dirname}/../../../src/shared/redis/intake-queue.ts";
    await createIntakeQueue({}, {}).check({ pattern: "0 9 3 9 *", tz: "UTC" }, Date.now());
    console.log(new Date(2028, 8, 3, 0).getHours(), "accepted");
  `;
  const env = { ...process.env, TZ: "America/Santiago" };
  const { stdout } = await execute(
    process.execPath,
    ["--import", "tsx", "--input-type=module", "--eval", code],
    { env },
  );
  expect(stdout).toBe("1 accepted\n");
});

test.for([
  ["two rhythms", { cron: "0 7 * * *", every_ms: 5_000 }, /exactly one/],
  ["no rhythm", {}, /exactly one/],
  ["a pattern that is none", { cron: "67 99 * * *" }, /cron: write five fields, or six with seconds/],
  ["a day that its months do not have", { cron: "0 0 31 2,4,6,9,11 *" }, /cron: .*it never comes due/],
  ["such a day with seconds", { cron: "5 0 0 31 feb-jun/2 ?", tz: "Europe/Berlin" }, /never comes due/],
  ["a time that the parser chooses", { cron: "H 7 * * THU" }, /cron: write a number in place of H/],
  ["a word for a pattern", { cron: "daily" }, /cron: write five fields, or six with seconds/],
  [
    "a zone that is none",
    { cron: "0 7 * * *", tz: "Mars/Olympus" },
    /tz: is no time zone; write one such as/,
  ],
  ["a time that is past", { at: "2020-01-01T00:00:00Z" }, /at: 2020-01-01T00:00:00Z is past/],
  [
    "a time of two minutes ago",
    { at: new Date(Date.now() - 120_000).toISOString() },
    /is past; write a time that is to come/,
  ],
  ["a time that is none", { at: "tomorrow" }, /at: write a time such as/],
  ["a model with a space in its id", { every_ms: 5_000, model: "a b" }, /model: a model's id has no spaces/],
  ["an interval of nothing", { every_ms: 0 }, /every_ms/],
  ["a request key", { every_ms: 5_000, request_key: "k" }, /request_key/],
  ["a trace that it would belong to", { every_ms: 5_000, traceparent: TRACEPARENT }, /no traceparent/],
  ["a file", { every_ms: 5_000, files: [{ path: "a", content: "b" }] }, /no files or images/],
  ["a tool wish that is none", { every_ms: 5_000, tools: "x" }, /tools/],
  [
    "more text than a job may have",
    { every_ms: 5_000, prompt: LONG, system: LONG, description: LONG },
    /bytes/,
  ],
] as const)("%s is refused, and nothing is scheduled", async ([, wish, sentence]) => {
  const parent = (await openStage()).parent();
  const input = { schedule_id: "wrong", prompt: "say hello", ...wish };
  await expect(Reflect.apply(parent.schedule, parent, [input])).rejects.toMatchObject(
    refusal("invalid_input", sentence),
  );
  expect(await parent.schedules()).toEqual([]);
});
