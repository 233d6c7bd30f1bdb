/** Guarantee: mending takes nothing from an agent that lives, leaves nothing of one that does not, and minds no repetition. */
import { expect, test } from "vitest";
import type { AgentAddress } from "../../../src/shared/protocol/keys.ts";
import { type AgentInspection, createAgentInspection } from "../../../src/shared/redis/inspection.ts";
import { DESTROY, type Rig, verbRig } from "./rig.ts";

function inspectionOf({ redis, keys, store }: Rig): AgentInspection {
  return createAgentInspection(redis, keys, { isAlive: async () => true }, store.timing);
}

/** Mends twice: the second time answers `whole` and changes nothing. */
async function mendTwice(rig: Rig, agent: AgentAddress) {
  const inspection = inspectionOf(rig);
  const answer = await inspection.repair(agent);
  const before = await rig.everything();
  expect(await inspection.repair(agent)).toEqual({ status: "whole" });
  expect(await rig.everything()).toEqual(before);
  return answer;
}

test("an agent that lives is left as it is, idle, queued or running", async () => {
  const rig = verbRig();
  const { agent: running } = await rig.running();
  for (const agent of [await rig.spawn(), await rig.queued(), running]) {
    const before = await rig.everything();
    expect(await mendTwice(rig, agent)).toMatchObject({ status: "whole" });
    expect(await rig.everything()).toEqual(before);
  }
});

test("one that ended in order is left as it is", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  await rig.store.settle(agent, DESTROY);
  const before = await rig.everything();
  expect(await mendTwice(rig, agent)).toMatchObject({ status: "whole" });
  expect(await rig.everything()).toEqual(before);
});

test("of one whose record is gone, the place and every key is taken away", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const entries = [["0", "{}"]] as const;
  await rig.store.append(agent, { epoch, known: 0, running_ms: 1, entries, advances: true, events: "{}" });
  const { record, log, inbox, attachments, life, timeline } = rig.keys.agent(agent);
  await rig.redis.hset(attachments, "spawn", "{}");
  const left = () => rig.redis.exists(log, inbox, attachments, life, timeline);
  expect(await left()).toBe(5);
  await rig.redis.del(record);
  expect(await mendTwice(rig, agent)).toMatchObject({ status: "repaired", removed: 6 });
  expect(await left()).toBe(0);
  expect(await rig.store.liveUids(agent)).toEqual([]);
});

test("one that lives gets its place and its name back, but not a name that another has", async () => {
  const rig = verbRig();
  const [agent, other] = [await rig.spawn(), await rig.spawn()];
  const { live, registry } = rig.keys.parent(agent);
  const { agent_id: agentId = "" } = await rig.raw(agent);
  await rig.redis.hdel(live, agent.uid);
  await rig.redis.hdel(registry, agentId);
  await rig.redis.persist(registry);
  expect(await mendTwice(rig, agent)).toMatchObject({
    status: "repaired",
    removed: 0,
    counted: true,
    named: true,
  });
  expect(await rig.store.uidOf(agent, agentId)).toBe(agent.uid);
  expect(await rig.redis.pttl(registry)).toBeGreaterThan(0);
  expect((await rig.store.liveUids(agent)).sort()).toEqual([agent.uid, other.uid].sort());

  await rig.redis.hset(registry, agentId, other.uid);
  expect(await mendTwice(rig, agent)).toMatchObject({ status: "whole" });
  expect(await rig.store.uidOf(agent, agentId)).toBe(other.uid);
});

test("looking changes nothing and sees what stands there", async () => {
  const rig = verbRig();
  const { agent } = await rig.running();
  await rig.deadlines.hint(agent, 5_000);
  await rig.redis.hset(rig.keys.agent(agent).record, { crashes_without_progress: 1, breaks: 3 });
  const before = await rig.everything();
  const { snapshots, unreadable } = await inspectionOf(rig).inspect([agent, rig.address()], 1_000);
  expect(await rig.everything()).toEqual(before);
  expect(unreadable).toEqual([]);
  const raw = await rig.raw(agent);
  expect(snapshots[0]).toMatchObject({
    record: {
      version: 1,
      agentId: "researcher",
      status: "running",
      leaseUntil: Number(raw.lease_until),
      wake: 1,
      worker: "worker-1",
      crashes: 1,
      breaks: 3,
      isNamed: true,
    },
    lifeMs: -1,
    inbox: 1,
    isCounted: true,
  });
  expect(snapshots[0]?.nextCheckMs).toBeGreaterThan(0);
  expect(snapshots[1]).toMatchObject({
    record: undefined,
    lifeMs: -2,
    isCounted: false,
    nextCheckMs: undefined,
  });
});
