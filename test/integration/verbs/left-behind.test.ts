/** What one verb leaves for those behind it: a run that was to end and goes on, an end, a finish, a new wake, a lease. */
import { expect, test } from "vitest";
import { type AgentAddress, addressOfParent } from "../../../src/shared/protocol/keys.ts";
import { partsOf } from "../../../src/shared/protocol/reply.ts";
import { readTimeline } from "../../../src/shared/redis/events.ts";
import { keptReply } from "../../../src/shared/redis/replies.ts";
import { bodyOf, handedBack, IDLE_END, type Rig, verbRig, wellDone } from "./rig.ts";

/** A run that has read its message, and meets another one at its natural end, which brings its last answer along. */
async function goesOn(rig: Rig): Promise<AgentAddress> {
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  await rig.send(agent, "one more thing");
  const last = { known: 1, entries: [["1", "{}"] as const], events: '{"type":"turn","turn":1}' };
  expect(await rig.patient.settle(agent, { ...wellDone(epoch), ...last })).toMatchObject({ status: "more" });
  return agent;
}

test("a run that goes on has its last answer in the log, and no crash counts against it", async () => {
  const rig = verbRig({ timing: { leaseMs: 1 } });
  const agent = await goesOn(rig);
  expect(await rig.redis.hkeys(rig.keys.agent(agent).log)).toContain("1");
  await rig.redis.hset(rig.keys.agent(agent).record, "lease_until", "1");
  await rig.claim(agent);
  expect(await rig.store.record(agent)).toMatchObject({ crashes_without_progress: 0 });
});

test("the events of a run that goes on are in its timeline", async () => {
  const rig = verbRig();
  const agent = await goesOn(rig);
  const lines = await rig.redis.lrange(rig.keys.agent(agent).timeline, 0, -1);
  expect(lines.filter((line) => line.includes('"turn":1'))).toHaveLength(1);
  expect(await readTimeline(rig.redis, rig.keys, agent)).toHaveLength(lines.length);
});

test("the end of an idle agent is kept without the counters of the run before, and names none of its messages", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch, { consume_ids: [agent.uid] });
  const over = {
    ...handedBack(epoch),
    known: 1,
    target: "idle",
    ended_reason: undefined,
    idle_ms: 60_000,
  } as const;
  await rig.store.settle(agent, { ...over, ...partsOf({ ...bodyOf("done"), turns: 7 }) });
  await rig.redis.del(rig.keys.agent(agent).life);
  await rig.store.settle(agent, IDLE_END);
  const record = await rig.store.record(agent);
  expect(record && keptReply(record)?.entry).toMatchObject({
    ...{ kind: "ended", status: "cancelled", stop_reason: "idle", turns: 0, message_ids: [] },
  });
  const [, ended] = await rig.replies.read(rig.parent, "0", 10);
  expect(ended?.entry).toMatchObject({ kind: "ended", turns: 0, message_ids: [] });
});

test("a question that a finish made needless is open no more", async () => {
  const rig = verbRig();
  const { agent } = await rig.waiting();
  expect(await rig.store.finish(agent, { orphaned: false })).toMatchObject({ status: "finishing" });
  const record = await rig.store.record(agent);
  expect([record?.status, record?.questions]).toEqual(["queued", undefined]);
});

test("the text that a run said before its last commit is its summary, if it said nothing since", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch, partsOf(bodyOf("found it")));
  await rig.store.settle(agent, { ...handedBack(epoch), known: 1, summary: undefined });
  const [reply] = await rig.replies.read(rig.parent, "0", 10);
  expect(reply?.entry).toMatchObject({ kind: "reply", summary: "found it" });
});

test("the job of a wake that was replaced is checked after the time of a check", async () => {
  const rig = verbRig({ timing: { checkMs: 5_000 } });
  const agent = await rig.queued();
  await rig.redis.hset(rig.keys.agent(agent).record, "deadline", "1");
  expect(await rig.store.requeue(agent, { expected_wake: 1 })).toMatchObject({ status: "wake" });
  const deadline = (await rig.store.record(agent))?.deadline ?? 0;
  expect(deadline - (await rig.redisNow())).toBeLessThanOrEqual(5_000);
});

test("a process with a shorter lease holds it on when the longer one of another process is about to end", async () => {
  const rig = verbRig();
  const address = addressOfParent(rig.parent);
  await rig.store.hold(address, { parent_lease_ms: 60_000 });
  const soon = (await rig.redisNow()) + 1_000;
  await rig.redis.hset(rig.keys.parent(rig.parent).lease, "held_until", `${soon}`);
  expect((await rig.store.hold(address, { parent_lease_ms: 10_000 })).at).toBeGreaterThan(soon);
});
