import { expect, test } from "vitest";
import { newRequestKey } from "../../../src/shared/protocol/ids.ts";
import type { AgentAddress } from "../../../src/shared/protocol/keys.ts";
import { partsOf } from "../../../src/shared/protocol/reply.ts";
import type { VerbInput } from "../../../src/shared/redis/scripts.ts";
import { bodyOf, handedBack, type Rig, verbRig } from "./rig.ts";

const rigOfShortLeases = () => verbRig({ timing: { leaseMs: 2 } });

async function claimed(
  rig: Rig,
  agent: AgentAddress,
  how: Partial<VerbInput<"claim">> = {},
): Promise<number> {
  const answer = await asked(rig, agent, how);
  expect(answer.status).toBe("claimed");
  return answer.status === "claimed" ? answer.epoch : 0;
}

const asked = (rig: Rig, agent: AgentAddress, how: Partial<VerbInput<"claim">>) =>
  rig.store.claim(agent, { claim_id: newRequestKey(), worker: "w", ...how });

/** An agent whose worker died after its first turn: in the tools of that, or in the next call where `begun` names one. */
async function diedAfterATurn(rig: Rig, begun?: string): Promise<AgentAddress> {
  const agent = await rig.queued();
  const epoch = await claimed(rig, agent);
  const turn = { epoch, known: 0, running_ms: 1, advances: true, ...partsOf(bodyOf("so far")) };
  await rig.store.append(agent, { ...turn, entries: [["1", "{}"]], ...(begun && { begun }) });
  await rig.redisReaches(Number((await rig.raw(agent)).lease_until));
  return agent;
}

test("a run whose worker died in a tool is a suspect at once where it can be isolated, until a worker takes it", async () => {
  const rig = rigOfShortLeases();
  const agent = await diedAfterATurn(rig);
  for (const attempt of [1, 2]) {
    expect(await asked(rig, agent, { can_isolate: true }), `${attempt}`).toMatchObject({
      status: "suspect",
      crashes: 0,
      isolated_crashes: 0,
    });
  }
  expect(await rig.raw(agent)).toMatchObject({ status: "queued", in_doubt: "1" });
  await claimed(rig, agent, { isolation: "group", can_isolate: true });
  expect((await rig.raw(agent)).in_doubt).toBeUndefined();
});

test("a worker without a place for it runs it beside others: nobody waits for a doubt", async () => {
  const rig = rigOfShortLeases();
  const agent = await diedAfterATurn(rig);
  await claimed(rig, agent, { can_isolate: false });
  expect((await rig.raw(agent)).in_doubt).toBeUndefined();
});

test("a claim that is sent again names the same lost call, and each later claim only its own", async () => {
  const rig = rigOfShortLeases();
  const agent = await diedAfterATurn(rig, "a-call");
  const claim = { claim_id: newRequestKey(), worker: "w" };
  const first = await rig.store.claim(agent, claim);
  const again = await rig.store.claim(agent, claim);
  expect(first).toMatchObject({ status: "claimed", lost_call: "a-call" });
  expect(again).toMatchObject({ status: "claimed", lost_call: "a-call" });
  await rig.redisReaches(Number((await rig.raw(agent)).lease_until));
  const next = await asked(rig, agent, {});
  expect(next).toMatchObject({ status: "claimed", lost_call: claim.claim_id });
  const epoch = next.status === "claimed" ? next.epoch : 0;
  const turn = { epoch, known: 1, running_ms: 1, advances: true, ...partsOf(bodyOf("so far")) };
  await rig.store.append(agent, { ...turn, entries: [["2", "{}"]] });
  await rig.redisReaches(Number((await rig.raw(agent)).lease_until));
  const last = { claim_id: newRequestKey(), worker: "w" };
  const none = { status: "claimed", lost_call: undefined };
  for (const attempt of ["sent", "sent again"])
    expect(await rig.store.claim(agent, last), attempt).toMatchObject(none);
});

test("a run whose worker died in a model call is in no doubt", async () => {
  const rig = rigOfShortLeases();
  const agent = await diedAfterATurn(rig, "a-call");
  await claimed(rig, agent, { can_isolate: true });
});

test.for([
  { stands: "not all the results", entries: [], lost: undefined },
  { stands: "all the results", entries: ["1/a/result"], lost: "3.5" },
  { stands: "all the results and the answer", entries: ["1/a/result", "3"], lost: undefined },
])("a call that a turn announced is under way where $stands behind it stand in the log", async (row) => {
  const rig = rigOfShortLeases();
  const agent = await diedAfterATurn(rig, "3.5@2");
  for (const key of row.entries) await rig.redis.hset(rig.keys.agent(agent).log, key, "{}");
  const answer = await asked(rig, agent, { can_isolate: true });
  expect(answer.status).toBe(row.lost === undefined ? "suspect" : "claimed");
  const taken = row.lost === undefined ? await asked(rig, agent, { isolation: "group" }) : answer;
  expect(taken.status === "claimed" && taken.lost_call).toBe(row.lost);
});

test("the call that was announced is over with its answer, and with a commit that tells what became of it otherwise", async () => {
  for (const [entry, begun] of [
    ["3", "3.5@1"],
    ["3/purchase/5.0", ""],
  ] as const) {
    const rig = verbRig();
    const agent = await rig.queued();
    const epoch = await claimed(rig, agent);
    const turn = { epoch, running_ms: 1, ...partsOf(bodyOf("so far")) };
    await rig.store.append(agent, { ...turn, known: 0, entries: [["1", "{}"]], begun: "3.5@1" });
    await rig.store.append(agent, { ...turn, known: 1, entries: [[entry, "{}"]] });
    expect((await rig.raw(agent)).begun).toBe(begun);
  }
});

test("a run in doubt whose shared process is seen to crash is a suspect, and settled when it crashes alone", async () => {
  const rig = rigOfShortLeases();
  const agent = await diedAfterATurn(rig);
  const crash = { delay_ms: 0, running_ms: 1, attempts: 0, crashed: true };
  const shared = await claimed(rig, agent, { isolation: "group" });
  await rig.store.release(agent, { ...crash, epoch: shared });
  const suspect = { status: "suspect", crashes: 2, isolated_crashes: 1 };
  for (const how of [{}, { can_isolate: true }, { isolation: "group" }] as const)
    expect(await asked(rig, agent, how)).toMatchObject(suspect);
  const alone = await claimed(rig, agent, { isolation: "own_process" });
  await rig.store.release(agent, { ...crash, epoch: alone });
  expect(await asked(rig, agent, {})).toMatchObject({ status: "crashed" });
});

test("a run whose process of suspects crashes after a step is in doubt again", async () => {
  const rig = rigOfShortLeases();
  const agent = await diedAfterATurn(rig);
  const epoch = await claimed(rig, agent, { isolation: "group" });
  await rig.store.append(agent, { epoch, known: 1, running_ms: 1, entries: [["2", "{}"]], advances: true });
  await rig.store.release(agent, { epoch, delay_ms: 0, running_ms: 1, attempts: 0, crashed: true });
  expect(await asked(rig, agent, { can_isolate: true })).toMatchObject({ status: "suspect", crashes: 0 });
});

test("a worker that dies with its process of suspects blames a run among others for nothing, and a run alone the third time", async () => {
  const rig = rigOfShortLeases();
  const agent = await rig.queued();
  await rig.redis.hset(rig.keys.agent(agent).record, "crashes_without_progress", 2);
  const answers: string[] = [];
  for (const isolation of ["group", "own_process", "own_process", "own_process", "own_process"] as const) {
    answers.push((await asked(rig, agent, { isolation, can_isolate: true })).status);
    await rig.redisReaches(Number((await rig.raw(agent)).lease_until));
  }
  expect(answers).toEqual(["claimed", "claimed", "claimed", "claimed", "crashed"]);
});

test("a crash that was seen takes back nothing that its holder had written: neither running time nor progress", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const crash = { delay_ms: 0, running_ms: 0, attempts: 3, breaks: 7 };
  const counters = async () => {
    const { running_ms, attempts, breaks } = await rig.raw(agent);
    return { running_ms, attempts, breaks };
  };
  const broken = await claimed(rig, agent);
  await rig.store.release(agent, { ...crash, epoch: broken });
  const renewed = await claimed(rig, agent, { isolation: "group" });
  await rig.store.renew(agent, { epoch: renewed, running_ms: 5_000 });
  await rig.store.release(agent, { ...crash, epoch: renewed, attempts: 0, breaks: 0, crashed: true });
  expect(await counters()).toEqual({ running_ms: "5000", attempts: "3", breaks: "7" });

  const advanced = await claimed(rig, agent, { isolation: "own_process" });
  const turn = { epoch: advanced, known: 0, running_ms: 6_000, advances: true, ...partsOf(bodyOf("so far")) };
  await rig.store.append(agent, { ...turn, entries: [["1", "{}"]] });
  await rig.store.release(agent, { ...crash, epoch: advanced, crashed: true });
  expect(await counters()).toEqual({ running_ms: "6000", attempts: "0", breaks: "0" });
});

/** A suspect that is alone in a process, and has come further there. */
async function provedAlone(rig: Rig) {
  const agent = await diedAfterATurn(rig);
  const crash = { delay_ms: 0, running_ms: 1, attempts: 0, crashed: true };
  await rig.store.release(agent, { ...crash, epoch: await claimed(rig, agent, { isolation: "group" }) });
  const epoch = await claimed(rig, agent, { isolation: "own_process" });
  expect(await rig.raw(agent)).toMatchObject({ crashes_without_progress: "2", isolated_crashes: "1" });
  const turn = { known: 1, running_ms: 1, entries: [["2", "{}"]], advances: true } as const;
  await rig.store.append(agent, { epoch, ...turn });
  return { agent, epoch };
}

test("a suspect that comes further has no crash to its name after it was handed back, isolated ones included", async () => {
  const rig = rigOfShortLeases();
  const { agent, epoch } = await provedAlone(rig);
  await rig.store.release(agent, { epoch, delay_ms: 0, running_ms: 1, attempts: 0 });
  expect(await rig.raw(agent)).toMatchObject({ crashes_without_progress: "0", isolated_crashes: "0" });
});

test("the crashes of a run are none of the next one's, isolated ones included", async () => {
  const rig = rigOfShortLeases();
  const { agent, epoch } = await provedAlone(rig);
  await rig.send(agent, "more");
  await rig.store.settle(agent, { ...handedBack(epoch), target: "idle", known: 2 });
  const raw = await rig.raw(agent);
  expect(raw).toMatchObject({ status: "queued", run: "2", crashes_without_progress: "0" });
  expect(raw).not.toHaveProperty("isolated_crashes");
});
