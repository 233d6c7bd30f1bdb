import { expect, test } from "vitest";
import { DESTROY, verbRig, wellDone } from "./rig.ts";

test("a claim makes a queued agent running and gives out epoch 1", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  expect(await rig.store.claim(agent, "c-1", "worker-1")).toMatchObject({ status: "claimed", epoch: "1" });
  expect(await rig.store.record(agent)).toMatchObject({ status: "running", epoch: 1, worker: "worker-1" });
  const { lease_until, deadline } = await rig.raw(agent);
  expect(Number(lease_until) - (await rig.redisNow())).toBeGreaterThan(9_000);
  expect(deadline).toBe(lease_until);
});

test("the same claim_id gets the same answer and changes nothing, also when its lease is over", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const agent = await rig.queued();
  await rig.store.claim(agent, "c-1", "worker-1");
  const before = await rig.everything();
  expect(await rig.store.claim(agent, "c-1", "worker-1")).toMatchObject({ status: "claimed", epoch: "1" });
  await rig.redisReaches(Number((await rig.raw(agent)).lease_until) + 1);
  expect(await rig.store.claim(agent, "c-1", "worker-1")).toMatchObject({ status: "claimed", epoch: "1" });
  expect(await rig.everything()).toEqual(before);
});

test("while the lease lives everybody else is told how long to wait, and nothing changes", async () => {
  const rig = verbRig();
  const { agent } = await rig.running();
  const before = await rig.everything();
  const answer = await rig.store.claim(agent, "c-2", "worker-2");
  expect(answer.status).toBe("held");
  if (answer.status === "held") expect(Number(answer.wait_ms)).toBeGreaterThan(9_000);
  expect(await rig.everything()).toEqual(before);
});

test("a renewed lease keeps others out beyond its first end", async () => {
  const rig = verbRig({ timing: { leaseMs: 400 } });
  const { agent, epoch } = await rig.running();
  const firstEnd = Number((await rig.raw(agent)).lease_until);
  await rig.redisReaches(firstEnd - 200);
  await rig.store.renew(agent, epoch, 1);
  await rig.redisReaches(firstEnd + 1);
  expect(await rig.store.claim(agent, "c-2", "worker-2")).toMatchObject({ status: "held" });
});

test("when the lease is over another claim takes the agent and bumps its epoch", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const { agent, epoch } = await rig.running();
  await rig.redisReaches(Number((await rig.raw(agent)).lease_until));
  expect(await rig.store.claim(agent, "c-2", "worker-2")).toMatchObject({
    status: "claimed",
    epoch: `${epoch + 1}`,
  });
  expect(await rig.store.record(agent)).toMatchObject({ worker: "worker-2", epoch: epoch + 1, run: 1 });
});

test("of twenty claims at once exactly one gets the agent", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => rig.store.claim(agent, `c-${i}`, `worker-${i}`)),
  );
  expect(answers.filter(({ status }) => status === "claimed")).toHaveLength(1);
  expect(answers.filter(({ status }) => status === "held")).toHaveLength(19);
});

test("the epoch never goes back, across releases, takeovers, runs and the end", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const { agent } = await rig.running();
  const epochs = [1];
  await rig.store.release(agent, { epoch: 1, delayMs: 0, runningMs: 1, retries: 0 });
  epochs.push(await rig.claim(agent));
  await rig.redisReaches(Number((await rig.raw(agent)).lease_until));
  const third = await rig.claim(agent);
  await rig.store.append(agent, { epoch: third, runningMs: 1, entries: [["0", "{}"]], consumeTo: 1 });
  expect(await rig.store.settle(agent, { ...wellDone(third), target: "idle", idleMs: 9_000 })).toMatchObject({
    agent_status: "idle",
  });
  await rig.send(agent, "run two");
  const fourth = await rig.claim(agent);
  await rig.store.settle(agent, DESTROY);
  const last = (await rig.store.record(agent))?.epoch;
  expect([...epochs, third, fourth, last]).toEqual([1, 2, 3, 4, 5]);
});

test("an agent with nothing to do is no work: idle, ended and unknown ones are not claimed", async () => {
  const rig = verbRig();
  const agent = await rig.spawn();
  expect(await rig.store.claim(agent, "c-1", "w")).toMatchObject({ status: "nothing", agent_status: "idle" });
  await rig.store.settle(agent, DESTROY);
  const before = await rig.everything();
  expect(await rig.store.claim(agent, "c-1", "w")).toMatchObject({
    status: "nothing",
    agent_status: "ended",
  });
  expect(await rig.store.claim(rig.address(), "c-1", "w")).toMatchObject({ status: "unknown" });
  expect(await rig.everything()).toEqual(before);
});

test("a record of a newer version is left to newer workers, unchanged", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  await rig.redis.hset(rig.keys.agent(agent).record, "v", "2");
  const before = await rig.everything();
  expect(await rig.store.claim(agent, "c-1", "w")).toMatchObject({ status: "newer", version: "2" });
  expect(await rig.everything()).toEqual(before);
});

test("a released agent is held until its delay is over", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.store.release(agent, { epoch, delayMs: 400, runningMs: 1, retries: 1 });
  const before = await rig.everything();
  const answer = await rig.store.claim(agent, "c-2", "w");
  expect(answer.status).toBe("held");
  if (answer.status === "held") expect(Number(answer.wait_ms)).toBeLessThanOrEqual(400);
  expect(await rig.everything()).toEqual(before);
  await rig.redisReaches(Number((await rig.raw(agent)).not_before));
  expect(await rig.store.claim(agent, "c-2", "w")).toMatchObject({ status: "claimed", epoch: "2" });
});

test("a death counts unless a step was committed since the claim; an entry without a step is none", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const { agent } = await rig.running();
  const deaths = async () => (await rig.store.record(agent))?.barren_deaths;
  const dieAndTakeOver = async () => {
    await rig.redisReaches(Number((await rig.raw(agent)).lease_until));
    return rig.claim(agent);
  };
  expect(await deaths()).toBe(0);
  await dieAndTakeOver();
  expect(await deaths()).toBe(1);
  const epoch = await dieAndTakeOver();
  expect(await deaths()).toBe(2);
  await rig.store.append(agent, { epoch, runningMs: 1, entries: [["0", "{}"]] });
  const next = await dieAndTakeOver();
  expect(await deaths()).toBe(3);
  await rig.store.append(agent, { epoch: next, runningMs: 1, entries: [["1", "{}"]], step: "{}" });
  await dieAndTakeOver();
  expect(await deaths()).toBe(0);
});

test("handing an agent back neither counts as a death nor hides earlier ones, unless a step was committed", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const { agent } = await rig.running();
  await rig.redisReaches(Number((await rig.raw(agent)).lease_until));
  const second = await rig.claim(agent);
  const handBack = (epoch: number) =>
    rig.store.release(agent, { epoch, delayMs: 0, runningMs: 1, retries: 0 });
  await handBack(second);
  const third = await rig.claim(agent);
  expect(await rig.store.record(agent)).toMatchObject({ barren_deaths: 1 });
  await rig.store.append(agent, { epoch: third, runningMs: 1, entries: [["0", "{}"]], step: "{}" });
  await handBack(third);
  expect(await rig.store.record(agent)).toMatchObject({ barren_deaths: 0 });
});
