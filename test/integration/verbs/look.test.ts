/** What a sweeper does with one agent: overdue says what is due, requeue replaces a lost wake. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { nextCheckDelayMs } from "../../../src/shared/redis/deadlines.ts";
import { cases } from "../../helpers/cases.ts";
import { DESTROY, type Rig, sentOf, verbRig, wellDone } from "./rig.ts";

const overdue = async (rig: Rig, agent: ReturnType<Rig["address"]>) =>
  (await rig.store.overdue(agent)).status;
const reachesDeadline = async (rig: Rig, agent: ReturnType<Rig["address"]>) =>
  rig.redisReaches(Number((await rig.raw(agent)).deadline));

const PAUSES_MS = [20_000, 40_000, 60_000, 60_000, 60_000];

test("looking changes nothing, whatever the agent's state", async () => {
  const rig = verbRig({ timing: { leaseMs: 2, checkMs: 2 } });
  const agents = [await rig.spawn({ idleMs: 1 }), await rig.queued(), (await rig.running()).agent];
  const ended = await rig.spawn();
  await rig.store.settle(ended, DESTROY);
  await rig.redisReaches((await rig.redisNow()) + 5);
  const before = await rig.everything();
  const seen = [];
  for (const agent of [...agents, ended, rig.address()]) seen.push(await overdue(rig, agent));
  expect(seen).toEqual(["idle_over", "queued", "lease_over", "ended", "unknown"]);
  expect(await rig.everything()).toEqual(before);
});

test("an agent of a newer version is never due here, whatever its state: a newer sweeper looks at it", async () => {
  const rig = verbRig({ timing: { leaseMs: 2, checkMs: 2 } });
  for (const agent of [await rig.spawn({ idleMs: 1 }), await rig.queued(), (await rig.running()).agent]) {
    await rig.age(agent);
    await rig.redis.hset(rig.keys.agent(agent).record, "v", "2");
    await rig.redisReaches((await rig.redisNow()) + 5);
    const before = await rig.redisNow();
    const seen = await rig.store.overdue(agent);
    const after = await rig.redisNow();
    expect(seen.status).toBe("not_due");
    const lookAt = seen.status === "not_due" ? Number(seen.deadline) : Number.NaN;
    expect(lookAt).toBeGreaterThanOrEqual(before + 2);
    expect(lookAt).toBeLessThanOrEqual(after + 2);
  }
});

test("an idle agent is due when its life key is gone, and the answer says when that will be", async () => {
  const rig = verbRig();
  const before = await rig.redisNow();
  const idle = await rig.spawn({ idleMs: 60_000 });
  const after = await rig.redisNow();
  const early = await rig.store.overdue(idle);
  expect(early.status).toBe("not_due");
  const deadline = early.status === "not_due" ? Number(early.deadline) : Number.NaN;
  // Its clock may have moved on by one between the two numbers that it adds.
  expect(deadline).toBeGreaterThanOrEqual(before + 59_999);
  expect(deadline).toBeLessThanOrEqual(after + 60_001);
  const over = await rig.spawn({ idleMs: 1 });
  await rig.redisReaches((await rig.redisNow()) + 3);
  expect(await overdue(rig, over)).toBe("idle_over");
});

test("a queued agent is due after its look time, a running one after its lease, both with the wake in question", async () => {
  const patient = verbRig();
  expect(await overdue(patient, await patient.queued())).toBe("not_due");
  expect(await overdue(patient, (await patient.running()).agent)).toBe("not_due");
  const rig = verbRig({ timing: { leaseMs: 2, checkMs: 2 } });
  const queued = await rig.queued();
  const { agent: running } = await rig.running();
  await reachesDeadline(rig, running);
  expect(await rig.store.overdue(queued)).toMatchObject({ status: "queued", wake: 1 });
  expect(await rig.store.overdue(running)).toMatchObject({ status: "lease_over", wake: 1 });
});

test("the greatest age of a message is due before anything else, queued or running", async () => {
  const rig = verbRig();
  const agents = [await rig.queued(), (await rig.running()).agent];
  for (const agent of agents) await rig.age(agent);
  for (const agent of agents) expect(await overdue(rig, agent)).toBe("max_age_over");
});

test("an answered message has no age: a kept-alive agent is due for nothing but its idle time", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.age(agent);
  await rig.readFirst(agent, epoch);
  await rig.store.settle(agent, { ...wellDone(epoch), target: "idle", idle_ms: 60_000 });
  expect(await overdue(rig, agent)).toBe("not_due");
});

test("a lost wake is replaced by one with a new number", async () => {
  const rig = verbRig({ timing: { checkMs: 3 } });
  const agent = await rig.queued();
  await reachesDeadline(rig, agent);
  expect(await rig.store.requeue(agent, { expected_wake: 1 })).toMatchObject({
    status: "wake",
    wake: 2,
  });
  expect(await rig.store.record(agent)).toMatchObject({ status: "queued", wake: 2, run: 1 });
});

test("while its job waits a queued agent is looked at after 10 s, 20 s, 40 s and then every 60 s, without a new wake", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const { record } = rig.keys.agent(agent);
  let waitedMs = 0;
  for (const pauseMs of PAUSES_MS) {
    const before = await rig.redisNow();
    await rig.redis.hset(record, "deadline", before - waitedMs);
    const seen = await rig.store.overdue(agent);
    const lateMs = (await rig.redisNow()) - before;
    const { waited_ms } = seen.status === "queued" ? seen : { waited_ms: Number.NaN };
    expect(waited_ms).toBeGreaterThanOrEqual(waitedMs);
    expect(waited_ms).toBeLessThanOrEqual(waitedMs + lateMs);
    expect(nextCheckDelayMs(waitedMs, rig.store.timing)).toBe(pauseMs);
    waitedMs += pauseMs;
  }
  expect(await rig.store.record(agent)).toMatchObject({ wake: 1 });
});

/** Values of a field of a record: as it is, absent, times before and after now, a newer version, and what is no number everywhere. */
const anyValue = fc.constantFrom(
  "as it is",
  null,
  "0",
  "1",
  "2",
  "9999999999999",
  "",
  "0x10",
  "1e3",
  " 7",
  "-1",
);
const anyStatus = fc.constantFrom(
  "as it is",
  "as it is",
  "as it is",
  "idle",
  "running",
  "waiting",
  "ended",
  null,
);

test("a plain read of a queued agent says what the script says of it, whatever its record holds", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const { record } = rig.keys.agent(agent);
  const whole = { ...(await rig.raw(agent)), deadline: "5" };
  const fields = [
    "v",
    "wake",
    "deadline",
    "unanswered_since",
    "max_age_ms",
    "lease_until",
    "on_parent_gone",
    "tools_since",
  ];
  const numRuns = cases(200);
  let told = 0;
  const changed = fc.record(
    Object.fromEntries(
      fields.map((field) => [field, fc.oneof({ weight: 9, arbitrary: fc.constant("as it is") }, anyValue)]),
    ),
  );
  await fc.assert(
    fc.asyncProperty(anyStatus, changed, async (status, values) => {
      const given = Object.entries({ status, ...values }).filter(([, value]) => value !== "as it is");
      await rig.redis.del(record);
      await rig.redis.hset(record, whole);
      for (const [field, value] of given)
        await (value === null ? rig.redis.hdel(record, field) : rig.redis.hset(record, field, value));
      const nowMs = await rig.redisNow();
      const plain = await rig.store.waitingJob(agent, nowMs);
      if (!plain) return;
      told += 1;
      const { status: said, ...job } = await rig.store.overdue(agent);
      expect({ said, ...job, waited_ms: 0 }).toEqual({ said: "queued", ...plain, waited_ms: 0 });
      const waited = "waited_ms" in job ? job.waited_ms : Number.NaN;
      expect(waited - plain.waited_ms).toBeGreaterThanOrEqual(0);
      expect(waited - plain.waited_ms).toBeLessThanOrEqual((await rig.redisNow()) - nowMs);
    }),
    { numRuns },
  );
  expect(told).toBeGreaterThan(numRuns / 20);
});

test("a plain read tells of no agent that has more to look after than its job", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const { record } = rig.keys.agent(agent);
  const nowMs = await rig.redisNow();
  const whole = { ...(await rig.raw(agent)), deadline: String(nowMs - 5) };
  const told = async (change: Record<string, string>) => {
    await rig.redis.del(record);
    await rig.redis.hset(record, { ...whole, ...change });
    return rig.store.waitingJob(agent, nowMs);
  };
  expect(await told({})).toEqual({ wake: 1, agent_id: "researcher", waited_ms: 5 });
  const others: Record<string, string>[] = [
    { status: "running" },
    { deadline: String(nowMs + 1) },
    { v: "2" },
    { unanswered_since: String(nowMs - 7), max_age_ms: "7" },
    { lease_until: "1" },
    { on_parent_gone: "destroy" },
    { tools_since: "1" },
    { wake: "0x1" },
    { wake: "" },
  ];
  for (const change of others) expect(await told(change), JSON.stringify(change)).toBeUndefined();
  for (const field of ["wake", "agent_id"]) {
    await told({});
    await rig.redis.hdel(record, field);
    expect(await rig.store.waitingJob(agent, nowMs), field).toBeUndefined();
  }
  await rig.redis.del(record);
  expect(await rig.store.waitingJob(agent, nowMs)).toBeUndefined();
});

test("an agent for whose tools it has waited too long is told of with them, also before its next check", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const { record } = rig.keys.agent(agent);
  const now = await rig.redisNow();
  const waits = { needs_tools: " deploy ", deadline: now + 60_000 };
  await rig.redis.hset(record, { ...waits, tools_since: now });
  expect(await overdue(rig, agent)).toBe("not_due");
  await rig.redis.hset(record, "tools_since", now - rig.store.timing.toolsMs);
  expect(await rig.store.overdue(agent)).toEqual({
    status: "tools_missing",
    needs_tools: ["deploy"],
    wake: 1,
    agent_id: "researcher",
    waited_ms: 0,
  });
});

test("of two sweepers that look at one agent one wakes it, and the next check is later", async () => {
  const rig = verbRig({ timing: { checkMs: 3 } });
  const agent = await rig.queued();
  await reachesDeadline(rig, agent);
  const { deadline } = await rig.raw(agent);
  const answers = await Promise.all([
    rig.store.requeue(agent, { expected_wake: 1 }),
    rig.store.requeue(agent, { expected_wake: 1 }),
  ]);
  expect(answers.map(({ status }) => status).sort()).toEqual(["not_due", "wake"]);
  expect(Number((await rig.raw(agent)).deadline)).toBeGreaterThan(Number(deadline));
});

test("nobody is woken early, nor for a wake that is replaced, nor when idle or ended", async () => {
  const rig = verbRig({ timing: { checkMs: 2 } });
  const early = await rig.spawn();
  await rig.patient.send(early, sentOf("look"));
  const queued = await rig.queued();
  const idle = await rig.spawn({ idleMs: 1 });
  const ended = await rig.queued();
  await rig.store.settle(ended, DESTROY);
  await reachesDeadline(rig, queued);
  await rig.redisReaches((await rig.redisNow()) + 3);
  const before = await rig.everything();
  expect(await rig.store.requeue(early, { expected_wake: 1 })).toMatchObject({
    status: "not_due",
  });
  expect(await rig.store.requeue(queued, { expected_wake: 0 })).toMatchObject({
    status: "not_due",
  });
  expect(await rig.store.requeue(idle, { expected_wake: 0 })).toMatchObject({
    status: "not_due",
  });
  expect(await rig.store.requeue(ended, { expected_wake: 1 })).toMatchObject({
    status: "not_due",
  });
  expect(await rig.everything()).toEqual(before);
});

test("a run whose lease is over is woken at once; then a check waits for the job of its new wake, too", async () => {
  const rig = verbRig({ timing: { leaseMs: 3, checkMs: 200 } });
  const { agent } = await rig.running();
  await reachesDeadline(rig, agent);
  expect(await overdue(rig, agent)).toBe("lease_over");
  expect(await rig.store.requeue(agent, { expected_wake: 1 })).toMatchObject({ status: "wake", wake: 2 });
  await reachesDeadline(rig, agent);
  expect(await rig.store.overdue(agent)).toMatchObject({ status: "queued", wake: 2 });
});

test("a holder that renews in time is left in peace", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const { agent, epoch } = await rig.running();
  const firstEnd = Number((await rig.raw(agent)).deadline);
  await rig.patient.renew(agent, { epoch, running_ms: 1 });
  await rig.redisReaches(firstEnd + 1);
  expect(await overdue(rig, agent)).toBe("not_due");
  expect(await rig.store.requeue(agent, { expected_wake: 1 })).toMatchObject({
    status: "not_due",
  });
});
