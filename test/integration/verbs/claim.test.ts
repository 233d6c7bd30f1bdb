import { expect, test } from "vitest";
import { newRequestKey } from "../../../src/shared/protocol/ids.ts";
import type { AgentAddress } from "../../../src/shared/protocol/keys.ts";
import { DESTROY, questionsOf, type Rig, verbRig, wellDone, workerLost } from "./rig.ts";

test("a claim makes a queued agent running and gives out an epoch", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const before = await rig.redisNow();
  const epoch = await rig.claim(agent);
  const after = await rig.redisNow();
  expect(epoch).toBeGreaterThan(0);
  expect(await rig.store.record(agent)).toMatchObject({ status: "running", epoch, worker: "worker-1" });
  const { lease_until, deadline } = await rig.raw(agent);
  expect(Number(lease_until)).toBeGreaterThanOrEqual(before + 10_000);
  expect(Number(lease_until)).toBeLessThanOrEqual(after + 10_000);
  expect(deadline).toBe(lease_until);
});

test("the same claim_id gets the same answer and changes nothing, also when its lease is over", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const agent = await rig.queued();
  const epoch = await rig.claim(agent, "c-1");
  const before = await rig.everything();
  expect(await rig.claim(agent, "c-1")).toBe(epoch);
  await rig.redisReaches(Number((await rig.raw(agent)).lease_until) + 1);
  expect(await rig.claim(agent, "c-1")).toBe(epoch);
  expect(await rig.everything()).toEqual(before);
});

test("while the lease lives everybody else is told how long to wait, and nothing changes", async () => {
  const rig = verbRig();
  const { agent } = await rig.running();
  const leaseUntil = Number((await rig.raw(agent)).lease_until);
  const before = await rig.everything();
  const longest = leaseUntil - (await rig.redisNow());
  const answer = await rig.store.claim(agent, { claim_id: "c-2", worker: "worker-2" });
  const shortest = leaseUntil - (await rig.redisNow());
  expect(answer.status).toBe("held");
  const waitMs = answer.status === "held" ? Number(answer.wait_ms) : Number.NaN;
  expect(waitMs).toBeGreaterThanOrEqual(shortest);
  expect(waitMs).toBeLessThanOrEqual(longest);
  expect(await rig.everything()).toEqual(before);
});

test("a long log is read in pages, not handed out by the script that claims: by its entries, or by the bytes that its record knows", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const { log, record } = rig.keys.agent(agent);
  const entries = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`1/t${n}/result`, "{}"]));
  const takes = async (logBytes: number) => {
    await rig.redis.hset(record, { log_bytes: logBytes });
    const answer = await rig.store.claim(agent, { claim_id: "c-1", worker: "worker-1" });
    if (answer.status !== "claimed") throw new Error(answer.status);
    const { log, inbox } = await rig.store.claimed(agent, answer);
    expect(inbox).toEqual(answer.messages.map((text) => JSON.parse(text)));
    return { isHandedOut: answer.log !== undefined, log: Object.fromEntries(log) };
  };
  await rig.redis.hset(log, entries(1_000));
  expect(await takes(1_048_576)).toEqual({ isHandedOut: true, log: entries(1_000) });
  expect(await takes(1_048_577)).toEqual({ isHandedOut: false, log: entries(1_000) });
  await rig.redis.hset(log, entries(1_001));
  expect(await takes(0)).toEqual({ isHandedOut: false, log: entries(1_001) });
});

test("no worker takes an agent whose message is older than it may get, queued or after a crash: a sweeper ends it", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const queued = await rig.queued();
  const { agent: crashed } = await rig.running();
  await rig.redisReaches(Number((await rig.raw(crashed)).lease_until) + 1);
  for (const agent of [queued, crashed]) {
    await rig.age(agent);
    const before = await rig.everything();
    const claim = { claim_id: newRequestKey(), worker: "worker-2" };
    expect(await rig.store.claim(agent, claim)).toEqual({ status: "too_old" });
    expect(await rig.everything()).toEqual(before);
    expect(await rig.store.overdue(agent)).toMatchObject({ status: "max_age_over" });
  }
});

test("a renewed lease keeps others out beyond its first end", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const { agent, epoch } = await rig.running();
  const firstEnd = Number((await rig.raw(agent)).lease_until);
  await rig.patient.renew(agent, { epoch, running_ms: 1 });
  await rig.redisReaches(firstEnd + 1);
  expect(await rig.store.claim(agent, { claim_id: "c-2", worker: "worker-2" })).toMatchObject({
    status: "held",
  });
});

test("when the lease is over another claim takes the agent and raises its epoch", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const { agent, epoch } = await rig.running();
  await dies(rig, agent);
  const second = await rig.claim(agent);
  expect(second).toBeGreaterThan(epoch);
  expect(await rig.store.record(agent)).toMatchObject({ epoch: second, run: 1 });
});

test("a claim that Redis forgot shares its epoch with no later one, and keeps it when it is sent again", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const { record } = rig.keys.agent(agent);
  const queued = await rig.raw(agent);
  const forgetTheClaim = async () => {
    await rig.redis.del(record);
    await rig.redis.hset(record, queued);
  };
  const first = await rig.claim(agent, "c-1");
  await forgetTheClaim();
  expect(await rig.claim(agent, "c-1")).toBe(first);
  await forgetTheClaim();
  const second = await rig.claim(agent, "c-2");
  const before = await rig.everything();
  const forgotten = { epoch: first, known: 0, running_ms: 1 };
  const answers = [
    await rig.store.renew(agent, { epoch: first, running_ms: 1 }),
    await rig.store.append(agent, {
      ...forgotten,
      entries: [["0", "{}"]],
      consume_to: 1,
      consume_last: agent.uid,
    }),
    await rig.store.ask(agent, questionsOf(first)),
    await rig.store.release(agent, { ...forgotten, delay_ms: 0, attempts: 0 }),
    await rig.store.settle(agent, wellDone(first)),
  ];
  expect(answers.map(({ status }) => status)).toEqual(["stale", "stale", "stale", "stale", "stale"]);
  expect(await rig.everything()).toEqual(before);
  expect(await rig.store.renew(agent, { epoch: second, running_ms: 1 })).toMatchObject({ status: "ok" });
});

test("of twenty claims at once exactly one gets the agent", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      rig.store.claim(agent, { claim_id: `c-${i}`, worker: `worker-${i}` }),
    ),
  );
  expect(answers.filter(({ status }) => status === "claimed")).toHaveLength(1);
  expect(answers.filter(({ status }) => status === "held")).toHaveLength(19);
});

test("the epoch never goes back, across releases, takeovers, runs and the end", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const { agent, epoch: first } = await rig.running();
  await rig.store.release(agent, { epoch: first, delay_ms: 0, running_ms: 1, attempts: 0 });
  const second = await rig.claim(agent);
  await rig.redisReaches(Number((await rig.raw(agent)).lease_until));
  const third = await rig.claim(agent);
  await rig.readFirst(agent, third);
  expect(await rig.store.settle(agent, { ...wellDone(third), target: "idle", idle_ms: 9_000 })).toMatchObject(
    {
      agent_status: "idle",
    },
  );
  await rig.send(agent, "run two");
  const fourth = await rig.claim(agent);
  await rig.store.settle(agent, DESTROY);
  const last = (await rig.store.record(agent))?.epoch ?? 0;
  const epochs = [first, second, third, fourth, last];
  expect(epochs).toEqual([...new Set(epochs)].sort((a, b) => a - b));
});

test("an agent with nothing to do is no work: idle, ended and unknown ones are not claimed", async () => {
  const rig = verbRig();
  const agent = await rig.spawn();
  expect(await rig.store.claim(agent, { claim_id: "c-1", worker: "w" })).toMatchObject({
    status: "nothing",
    agent_status: "idle",
  });
  await rig.store.settle(agent, DESTROY);
  const before = await rig.everything();
  expect(await rig.store.claim(agent, { claim_id: "c-1", worker: "w" })).toMatchObject({
    status: "nothing",
    agent_status: "ended",
  });
  expect(await rig.store.claim(rig.address(), { claim_id: "c-1", worker: "w" })).toMatchObject({
    status: "unknown",
  });
  expect(await rig.everything()).toEqual(before);
});

test("a record of a newer version is left to newer workers, unchanged", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  await rig.redis.hset(rig.keys.agent(agent).record, "v", "2");
  const before = await rig.everything();
  expect(await rig.store.claim(agent, { claim_id: "c-1", worker: "w" })).toMatchObject({
    status: "newer",
    version: 2,
    wake: 1,
  });
  expect(await rig.everything()).toEqual(before);
});

test("a released agent is held until its delay is over", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.store.release(agent, { epoch, delay_ms: 60_000, running_ms: 1, attempts: 1 });
  const before = await rig.everything();
  const answer = await rig.store.claim(agent, { claim_id: "c-2", worker: "w" });
  expect(answer.status).toBe("held");
  if (answer.status === "held") expect(Number(answer.wait_ms)).toBeLessThanOrEqual(60_000);
  expect(await rig.everything()).toEqual(before);
  const { agent: other, epoch: earlier } = await rig.running();
  await rig.store.release(other, { epoch: earlier, delay_ms: 2, running_ms: 1, attempts: 1 });
  await rig.redisReaches(Number((await rig.raw(other)).not_before));
  expect(await rig.claim(other)).toBeGreaterThan(earlier);
});

/** Lets the lease of the last claim run out: its holder counts as dead. */
async function dies(rig: Rig, agent: AgentAddress): Promise<void> {
  await rig.redisReaches(Number((await rig.raw(agent)).lease_until));
}
const deathsOf = async (rig: Rig, agent: AgentAddress) =>
  (await rig.store.record(agent))?.crashes_without_progress;

/** An agent of whose run two workers died, the second of them, which held it with `epoch`, not found dead yet. */
async function twiceBarren(rig: Rig): Promise<{ agent: AgentAddress; epoch: number }> {
  const { agent } = await rig.running();
  await dies(rig, agent);
  const epoch = await rig.claim(agent);
  await dies(rig, agent);
  return { agent, epoch };
}
const claimAlone = (rig: Rig, agent: AgentAddress) => rig.claim(agent, newRequestKey(), "own_worker");

test("a death counts unless a step was committed since the claim; an entry without a step is none", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const { agent } = await rig.running();
  expect(await deathsOf(rig, agent)).toBe(0);
  await dies(rig, agent);
  const epoch = await rig.claim(agent);
  expect(await deathsOf(rig, agent)).toBe(1);
  await rig.store.append(agent, { epoch, known: 0, running_ms: 1, entries: [["0", "{}"]] });
  await dies(rig, agent);
  const third = await claimAlone(rig, agent);
  expect(await deathsOf(rig, agent)).toBe(2);
  await rig.store.append(agent, {
    epoch: third,
    known: 0,
    running_ms: 1,
    entries: [["1", "{}"]],
    advances: true,
  });
  await dies(rig, agent);
  await rig.claim(agent);
  expect(await deathsOf(rig, agent)).toBe(0);
});

test("after two barren deaths nobody gets the agent beside others; the death is counted once, whoever finds it", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const { agent, epoch } = await twiceBarren(rig);
  const answers = await Promise.all(
    ["a", "b", "c"].map((id) => rig.store.claim(agent, { claim_id: id, worker: `worker-${id}` })),
  );
  for (const answer of answers) expect(answer).toMatchObject({ status: "suspect", crashes: 2, wake: 1 });
  expect(await rig.store.record(agent)).toMatchObject({
    status: "queued",
    crashes_without_progress: 2,
    epoch,
  });
  const before = await rig.everything();
  expect(await rig.store.claim(agent, { claim_id: "a", worker: "worker-a" })).toMatchObject({
    status: "suspect",
    crashes: 2,
  });
  expect(await rig.everything()).toEqual(before);
});

test("a holder that comes back after its death was counted holds nothing", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const { agent, epoch } = await twiceBarren(rig);
  await rig.store.claim(agent, { claim_id: "c-3", worker: "w" });
  const before = await rig.everything();
  const zombie = { epoch, known: 0, running_ms: 1 };
  const answers = [
    await rig.store.renew(agent, { epoch, running_ms: 1 }),
    await rig.store.append(agent, { ...zombie, entries: [["0", "{}"]], advances: true }),
    await rig.store.release(agent, { ...zombie, delay_ms: 0, attempts: 0 }),
    await rig.store.settle(agent, wellDone(epoch)),
  ];
  expect(answers.map(({ status }) => status)).toEqual(["stale", "stale", "stale", "stale"]);
  expect(await rig.everything()).toEqual(before);
});

test("a suspect is somebody's to look at: not due before the asking worker had the time of a lease, then woken", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const { agent: patientlyAsked } = await twiceBarren(rig);
  await rig.patient.claim(patientlyAsked, { claim_id: "c-3", worker: "w" });
  expect(await rig.store.overdue(patientlyAsked)).toMatchObject({ status: "not_due" });
  const { agent } = await twiceBarren(rig);
  await rig.store.claim(agent, { claim_id: "c-3", worker: "w" });
  await rig.redisReaches(Number((await rig.raw(agent)).deadline));
  expect(await rig.store.overdue(agent)).toMatchObject({ status: "queued", wake: 1 });
});

test("dying alone makes the run lost, whoever claims it then, alone or not, with its tools or without; the answer says what to settle with", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const { agent } = await twiceBarren(rig);
  await rig.store.claim(agent, { claim_id: "c-3", worker: "w" });
  await rig.store.renew(agent, { epoch: await claimAlone(rig, agent), running_ms: 77 });
  await dies(rig, agent);
  const lost = await rig.store.claim(agent, { claim_id: "c-4", worker: "w" });
  expect(lost).toMatchObject({ status: "crashed", running_ms: 77 });
  expect(await rig.store.claim(agent, { claim_id: "c-4", worker: "w" })).toEqual(lost);
  await dies(rig, agent);
  await rig.redis.hset(rig.keys.agent(agent).record, "needs_tools", " deploy ");
  expect(await rig.store.claim(agent, { claim_id: "c-5", worker: "w" })).toMatchObject({
    status: "crashed",
    running_ms: 77,
  });
  expect(await deathsOf(rig, agent)).toBe(3);
  const last = (await rig.store.record(agent))?.epoch ?? 0;
  expect(await rig.store.settle(agent, workerLost(last))).toMatchObject({ status: "settled" });
});

test("a suspect that commits a step alone is none any more, whether it dies, goes on or is handed back", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  for (const fate of ["dies", "is handed back"]) {
    const { agent } = await twiceBarren(rig);
    const epoch = await claimAlone(rig, agent);
    await rig.store.append(agent, { epoch, known: 0, running_ms: 1, entries: [["0", "{}"]], advances: true });
    if (fate === "dies") await dies(rig, agent);
    else await rig.store.release(agent, { epoch, delay_ms: 0, running_ms: 1, attempts: 0 });
    await rig.claim(agent);
    expect(await deathsOf(rig, agent)).toBe(0);
  }
});

test("a suspect that is handed back without a step stays one, and no number of deaths beside others loses a run", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const { agent } = await twiceBarren(rig);
  const epoch = await claimAlone(rig, agent);
  await rig.store.release(agent, { epoch, delay_ms: 0, running_ms: 1, attempts: 0 });
  for (let i = 0; i < 5; i += 1) {
    expect(await rig.store.claim(agent, { claim_id: `c-${4 + i}`, worker: "w" })).toMatchObject({
      status: "suspect",
      crashes: 2,
    });
  }
});

test("handing an agent back neither counts as a death nor hides earlier ones, unless a step was committed", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const { agent } = await rig.running();
  await rig.redisReaches(Number((await rig.raw(agent)).lease_until));
  const second = await rig.claim(agent);
  const handBack = (epoch: number) =>
    rig.store.release(agent, { epoch, delay_ms: 0, running_ms: 1, attempts: 0 });
  await handBack(second);
  const third = await rig.claim(agent);
  expect(await rig.store.record(agent)).toMatchObject({ crashes_without_progress: 1 });
  await rig.store.append(agent, {
    epoch: third,
    known: 0,
    running_ms: 1,
    entries: [["0", "{}"]],
    advances: true,
  });
  await handBack(third);
  expect(await rig.store.record(agent)).toMatchObject({ crashes_without_progress: 0 });
});
