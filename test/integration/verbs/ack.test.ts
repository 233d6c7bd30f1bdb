import { expect, test } from "vitest";
import { viewOf } from "../../../src/shared/protocol/agent.ts";
import { keptReply } from "../../../src/shared/redis/replies.ts";
import { uniquePrefix } from "../../helpers/redis.ts";
import { DESTROY, handedBack, messageOf, type Rig, SPEC, verbRig, wellDone } from "./rig.ts";

const DAY_MS = 24 * 3_600_000;
const unacked = (rig: Rig) => rig.replies.read(rig.parent, "0", 100);
async function only(rig: Rig) {
  const [entry] = await unacked(rig);
  if (!entry) throw new Error("no entry");
  return entry;
}

test("the first ack takes the entry out; a second reader's ack learns that it came too late", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.store.settle(agent, handedBack(epoch));
  const entry = await only(rig);
  expect(await rig.replies.ack(rig.parent, entry, "reader-1")).toBe(true);
  expect(await unacked(rig)).toEqual([]);
  expect(await rig.replies.ack(rig.parent, entry, "reader-2")).toBe(false);
});

test.for(["record", "request", "timelines"] as const)(
  "an ack that meets a %s of another type leaves the entry in the channel",
  async (kind) => {
    const rig = verbRig();
    const { agent, epoch } = await rig.running();
    await rig.store.settle(agent, handedBack(epoch));
    const entry = await only(rig);
    const parent = rig.keys.parent(rig.parent);
    const foreign = {
      record: rig.keys.agent(agent).record,
      request: parent.request(agent.uid),
      timelines: parent.timelines,
    }[kind];
    await rig.redis.del(foreign);
    await rig.redis.sadd(foreign, "foreign");
    const before = await rig.everything();
    await expect(rig.replies.ack(rig.parent, entry, "reader-1")).rejects.toThrow("WRONGTYPE");
    expect(await rig.everything()).toEqual(before);
  },
);

test("a repeated ack answers as the first time, to both readers, and changes nothing", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.store.settle(agent, handedBack(epoch));
  const entry = await only(rig);
  await rig.replies.ack(rig.parent, entry, "reader-1");
  const before = await rig.everything();
  expect(await rig.replies.ack(rig.parent, entry, "reader-1")).toBe(true);
  expect(await rig.replies.ack(rig.parent, entry, "reader-2")).toBe(false);
  expect(await rig.everything()).toEqual(before);
});

test("after the ack of its end what is kept still answers for an agent: its reply, its view, and why nothing more is taken", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.send(agent, "late", "m-8");
  await rig.store.settle(agent, handedBack(epoch));
  const entry = await only(rig);
  const before = await rig.store.record(agent);
  await rig.replies.ack(rig.parent, entry, "reader-1");
  expect(
    Object.keys(await rig.raw(agent))
      .filter((name) => !/^kept\d+$/.test(name))
      .sort(),
  ).toEqual([
    "acked_by",
    "agent_id",
    "created_at",
    "ended_at",
    "ended_reason",
    "name",
    "run",
    "status",
    "v",
    "wake",
  ]);
  const record = await rig.store.record(agent);
  if (!record || !before) throw new Error("no record");
  expect(keptReply(record)).toEqual(entry);
  expect(viewOf(record)).toEqual(viewOf(before));
  const reason = before.ended_reason;
  expect(await rig.send(agent, "more", "m-9")).toEqual({ status: "ended", reason });
  expect(await rig.send(agent, "late", "m-8")).toMatchObject({
    status: "same",
    run: 1,
    agent_status: "ended",
  });
  expect(await rig.store.finish(agent)).toEqual({ status: "ended", reason });
  expect(await rig.store.settle(agent, DESTROY)).toMatchObject({ status: "same", ended_reason: reason });
  expect(await rig.store.claim(agent, { claim_id: "c", worker: "w" })).toMatchObject({ status: "nothing" });
  const spawned = await rig.store.spawn(agent, {
    ...{
      request_key: "another",
      digest: "d",
      stem: "a",
      name: "A",
      spec: JSON.stringify(SPEC),
      idle_ms: 60_000,
    },
  });
  expect(spawned).toEqual({ status: "conflict", agent_id: record.agent_id });
});

test.each([
  ["of a run that ended by itself", "ended"],
  ["of an agent that was destroyed while it was idle", "idle"],
] as const)("the conversation %s is gone with the ack of its end", async (_, target) => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  await rig.store.settle(agent, { ...handedBack(epoch), known: 1, target, idle_ms: 60_000 });
  if (target === "idle") await rig.store.settle(agent, DESTROY);
  const { transcript } = rig.keys.agent(agent);
  expect(await rig.redis.exists(transcript)).toBe(1);
  for (const entry of await unacked(rig)) await rig.replies.ack(rig.parent, entry, "reader-1");
  expect(await rig.redis.exists(transcript)).toBe(0);
});

test.each([
  ["in pieces that Redis packs, no character cut in two", "€".repeat(700), true],
  ["in one where they would be too many", "€".repeat(3_000), false],
])("what is kept of an agent stands %s", async (_, summary, isPacked) => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.store.settle(agent, { ...handedBack(epoch), summary });
  const entry = await only(rig);
  await rig.replies.ack(rig.parent, entry, "reader-1");
  const bytes = Object.values(await rig.raw(agent)).map((value) => Buffer.byteLength(value));
  // As `hash-max-listpack-value` of a server has it.
  expect(Math.max(...bytes) <= 64).toBe(isPacked);
  expect((await rig.store.record(agent))?.progress?.summary).toBe(summary);
});

test("what is kept takes no room for values that are not there behind the last that is", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.store.settle(agent, handedBack(epoch));
  await rig.replies.ack(rig.parent, await only(rig), "reader-1");
  const { kept1 = "", kept2 = "", kept3 = "", kept4 = "", kept5 } = await rig.raw(agent);
  expect(kept5).toBeUndefined();
  expect(JSON.parse(`${kept1}${kept2}${kept3}${kept4}`).at(-1)).not.toBeNull();
});

test("the end of an agent without a run, and one with unread messages, are kept as they were told", async () => {
  const rig = verbRig();
  const idle = await rig.spawn();
  const queued = await rig.queued();
  for (const agent of [idle, queued]) await rig.store.settle(agent, DESTROY);
  for (const entry of await unacked(rig)) {
    await rig.replies.ack(rig.parent, entry, "r");
    const record = await rig.store.record({ ...rig.parent, uid: entry.uid });
    expect(record && keptReply(record)).toEqual(entry);
  }
});

test("a specification that Lua cannot read leaves the record whole, and of the conversation nothing", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const half = JSON.stringify({ ...SPEC, system: "half" }).replace("half", "half \\ud83d");
  const { record, log, transcript } = rig.keys.agent(agent);
  await rig.redis.hset(record, "spec", half);
  await rig.redis.hset(log, "0:delivery", "{}");
  await rig.store.settle(agent, handedBack(epoch));
  expect(await rig.redis.exists(transcript)).toBe(1);
  const entry = await only(rig);
  expect(await rig.replies.ack(rig.parent, entry, "reader-1")).toBe(true);
  expect(await rig.replies.ack(rig.parent, entry, "reader-1")).toBe(true);
  expect(await rig.raw(agent)).toMatchObject({ spec: half, status: "ended" });
  expect(await rig.redis.exists(transcript)).toBe(0);
});

test.for([
  ["spec", JSON.stringify({ v: 1, model: "offline-1" })],
  ["reply", "{"],
  ["reply", "5"],
  ["progress", "[1,"],
] as const)(
  "an ack takes the entry of a record whose %s reads %s, once, and leaves the record whole",
  async ([name, text]) => {
    const rig = verbRig();
    const { agent, epoch } = await rig.running();
    await rig.store.settle(agent, handedBack(epoch));
    await rig.redis.hset(rig.keys.agent(agent).record, name, text);
    const entry = await only(rig);
    expect(await rig.replies.ack(rig.parent, entry, "reader-1")).toBe(true);
    expect(await rig.replies.ack(rig.parent, entry, "reader-1")).toBe(true);
    expect(await rig.replies.ack(rig.parent, entry, "reader-2")).toBe(false);
    expect(await rig.raw(agent)).toMatchObject({ [name]: text, status: "ended" });
  },
);

/** A task of one message, ended and acked. */
async function acked(
  rig: Rig,
  request_key: string,
  promised: boolean,
  { name = "a", transcript_ms }: { name?: string; transcript_ms?: number } = {},
) {
  const agent = rig.address();
  const task = { digest: "d", stem: name, name, spec: JSON.stringify(SPEC), idle_ms: 60_000, transcript_ms };
  const message = JSON.stringify(messageOf("go", request_key));
  const spawned = await rig.store.spawn(agent, { request_key, ...task, message, promised });
  if (spawned.status !== "spawned") throw new Error(spawned.status);
  const epoch = await rig.claim(agent);
  const taken = { consume_to: 1, consume_last: request_key, consume_ids: [request_key] };
  const line = { entries: [["0", "{}"]] as const, events: '["t",1]' };
  await rig.store.append(agent, { epoch, known: 0, running_ms: 1, ...line, ...taken });
  await rig.store.settle(agent, { ...wellDone(epoch), known: 1 });
  await rig.replies.ack(rig.parent, await only(rig), "r");
  return { ...agent, agentId: spawned.agent_id };
}

test("with the ack a request key goes that its caller did not name; one that it named, and another agent's, stay", async () => {
  const rig = verbRig();
  const ofParent = rig.keys.parent(rig.parent);
  await acked(rig, "drawn", false);
  await acked(rig, "named", true);
  expect(await rig.redis.exists(ofParent.request("drawn"), ofParent.request("named"))).toBe(1);
  expect(await rig.redis.exists(ofParent.request("named"))).toBe(1);
  const other = rig.address();
  const message = JSON.stringify(messageOf("go", "named"));
  await rig.store.spawn(other, {
    ...{
      request_key: "drawn",
      digest: "d",
      stem: "a",
      name: "A",
      spec: JSON.stringify(SPEC),
      idle_ms: 60_000,
      message,
    },
  });
  const epoch = await rig.claim(other);
  const taken = { consume_to: 1, consume_last: "named", consume_ids: ["named"] };
  await rig.store.append(other, { epoch, known: 0, running_ms: 1, entries: [["0", "{}"]], ...taken });
  await rig.store.settle(other, { ...wellDone(epoch), known: 1 });
  await rig.replies.ack(rig.parent, await only(rig), "r");
  expect(await rig.redis.exists(ofParent.request("named"))).toBe(1);
});

test.for([
  { what: "its record", kept: 1, transcript_ms: undefined, days: [0.9, 1] },
  { what: "a record with a transcript", kept: 1, transcript_ms: 1.5 * DAY_MS, days: [1.4, 1.5] },
  {
    what: "it was promised, where the record lasts longer",
    kept: 1,
    transcript_ms: 30 * DAY_MS,
    days: [8.9, 9],
  },
  { what: "a record that an operator keeps shorter", kept: 0.5, transcript_ms: undefined, days: [0.4, 0.5] },
])(
  "a named request key is remembered as long as $what",
  async ({ kept, transcript_ms, days: [least = 0, most = 0] }) => {
    const rig = verbRig({ timing: { keptAfterAckMs: kept * DAY_MS } });
    await acked(rig, "named", true, transcript_ms === undefined ? {} : { transcript_ms });
    const left = await rig.redis.pttl(rig.keys.parent(rig.parent).request("named"));
    expect(left).toBeGreaterThan(least * DAY_MS);
    expect(left).toBeLessThanOrEqual(most * DAY_MS);
  },
);

test("of acked agents the newest fifty keep their timelines; the numbers of the others leave the history", async () => {
  const rig = verbRig();
  const agents = [];
  for (let n = 0; n < 52; n += 1) agents.push(await acked(rig, `k-${n}`, false));
  const lengths = await Promise.all(agents.map((agent) => rig.redis.llen(rig.keys.agent(agent).timeline)));
  expect(lengths.filter((length) => length > 0)).toHaveLength(50);
  expect(lengths.slice(0, 2)).toEqual([0, 0]);
  const { history, timelines } = rig.keys.parent(rig.parent);
  expect(await rig.redis.xlen(history)).toBe(lengths.reduce((sum, length) => sum + length, 0));
  expect(await rig.redis.llen(timelines)).toBe(50);
});

test("an ack takes at most 200 numbers out of the history, however long the timelines are that it deletes", async () => {
  const rig = verbRig({ timing: { keptTimelines: 1 } });
  const { history, timelines } = rig.keys.parent(rig.parent);
  await acked(rig, "first", false);
  const longOnes = ["long-1", "long-2"].map((uid) => rig.keys.agent({ ...rig.parent, uid }).timeline);
  const [seconds] = await rig.redis.time();
  // Before all numbers of a run of this test.
  const hourAgo = (Number(seconds) - 3_600) * 1_000;
  const filling = rig.redis.pipeline();
  for (const [n, timeline] of longOnes.entries()) {
    filling.rpush(timelines, timeline);
    for (let line = 1; line <= 2_000; line += 1) {
      filling.xadd(`${history}:filled`, `${hourAgo + n}-${line}`, "u", `long-${n + 1}`);
      filling.rpush(timeline, `${hourAgo + n}-${line} 1 {}`);
    }
  }
  await filling.exec();
  await rig.redis.rename(`${history}:filled`, history);
  await acked(rig, "second", false);
  expect(await rig.redis.xlen(history)).toBeGreaterThanOrEqual(2 * 2_000 - 200);
  expect(await rig.redis.exists(...longOnes)).toBe(0);
  expect(await rig.redis.llen(timelines)).toBe(1);
});

test("an operator may keep more timelines, or fewer: a lowered number holds after a few acks", async () => {
  const prefix = uniquePrefix();
  const many = verbRig({ prefix, timing: { keptTimelines: 60 } });
  for (let n = 0; n < 62; n += 1) await acked(many, `k-${n}`, false);
  const { timelines } = many.keys.parent(many.parent);
  expect(await many.redis.llen(timelines)).toBe(60);
  const few = verbRig({ prefix, timing: { keptTimelines: 1 } });
  for (let n = 0; n < 9; n += 1) await acked(few, `l-${n}`, false);
  expect(await few.redis.llen(timelines)).toBe(1);
  const { history } = few.keys.parent(few.parent);
  const [kept = ""] = await few.redis.lrange(timelines, 0, -1);
  expect(await few.redis.xlen(history)).toBe(await few.redis.llen(kept));
});

test("names without a record leave the registry while their parent spawns, and no others", async () => {
  const rig = verbRig();
  const { registry } = rig.keys.parent(rig.parent);
  for (let n = 0; n < 60; n += 1) {
    const agent = await acked(rig, `k-${n}`, false, { name: `name${n}` });
    if (n < 50) await rig.redis.del(rig.keys.agent(agent).record);
  }
  for (let n = 60; n < 160; n += 1) await acked(rig, `k-${n}`, false, { name: "same" });
  const names = await rig.redis.hkeys(registry);
  const old = names.filter((name) => /name([0-9]|[1-4][0-9])$/.test(name));
  // One spawn in eight looks at 24 of some two hundred fields: of a hundred, forty are left by chance, not ninety.
  expect(old.length).toBeLessThan(90);
  expect(names.filter((name) => /^name5[0-9]$/.test(name))).toHaveLength(10);
  expect(names.filter((name) => /^same/.test(name))).toHaveLength(100);
});

test("of twenty readers that ack at once exactly one is first", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.store.settle(agent, handedBack(epoch));
  const entry = await only(rig);
  const firsts = await Promise.all(
    Array.from({ length: 20 }, (_, i) => rig.replies.ack(rig.parent, entry, `reader-${i}`)),
  );
  expect(firsts.filter(Boolean)).toHaveLength(1);
});

test("an ack of one entry leaves the others unacked, also older ones", async () => {
  const rig = verbRig();
  for (let i = 0; i < 3; i += 1) {
    const { agent, epoch } = await rig.running();
    await rig.store.settle(agent, handedBack(epoch));
  }
  const [first, second, third] = await unacked(rig);
  if (first && second && third) await rig.replies.ack(rig.parent, second, "r");
  expect((await unacked(rig)).map(({ id }) => id)).toEqual([first?.id, third?.id]);
});

test("reading goes on behind a given entry and takes no more than asked for", async () => {
  const rig = verbRig();
  for (let i = 0; i < 3; i += 1) await rig.store.settle(await rig.spawn(), DESTROY);
  const [first, second, third] = await unacked(rig);
  expect(await rig.replies.read(rig.parent, first?.id ?? "", 1)).toEqual([second]);
  expect(await rig.replies.read(rig.parent, second?.id ?? "", 9)).toEqual([third]);
  expect(await rig.replies.read(rig.parent, third?.id ?? "", 9)).toEqual([]);
});

test("after the ack of its end what is kept of an agent lives one more day", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const text = { run: 1, summary: "wh", whole_text: "whole" };
  await rig.store.append(agent, {
    epoch,
    known: 0,
    running_ms: 1,
    entries: [["0", "{}"]],
    advances: true,
    events: "{}",
    ...text,
  });
  const { summary: _, ...ended } = handedBack(epoch);
  await rig.store.settle(agent, ended);
  await rig.replies.ack(rig.parent, await only(rig), "r");
  const { record, timeline } = rig.keys.agent(agent);
  for (const key of [record, timeline, rig.keys.parent(rig.parent).text(`${agent.uid}.1`)]) {
    const left = await rig.redis.pttl(key);
    expect(left, key).toBeGreaterThan(DAY_MS - 60_000);
    expect(left, key).toBeLessThanOrEqual(DAY_MS);
  }
});

test.for([2, 20])(
  "a transcript is kept for the %i days that its profile says, and its record with it",
  async (days) => {
    const rig = verbRig();
    const agent = await acked(rig, "named", true, { transcript_ms: days * DAY_MS });
    const { record, transcript } = rig.keys.agent(agent);
    for (const key of [record, transcript]) {
      const left = await rig.redis.pttl(key);
      expect(left, key).toBeGreaterThan(days * DAY_MS - 60_000);
      expect(left, key).toBeLessThanOrEqual(days * DAY_MS);
    }
  },
);

test("the ack of an earlier reply shortens nothing while the agent's end is unacked", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  await rig.store.settle(agent, { ...wellDone(epoch), target: "idle", idle_ms: 60_000 });
  await rig.store.settle(agent, DESTROY);
  const [reply, end] = await unacked(rig);
  if (!reply || !end) throw new Error("two entries were expected");
  await rig.replies.ack(rig.parent, reply, "r");
  expect(await rig.redis.pttl(rig.keys.agent(agent).record)).toBeGreaterThan(6 * DAY_MS);
  await rig.replies.ack(rig.parent, end, "r");
  expect(await rig.redis.pttl(rig.keys.agent(agent).record)).toBeLessThanOrEqual(DAY_MS);
});

test("the ack of a live agent's reply leaves its record without time limit", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  await rig.store.settle(agent, { ...wellDone(epoch), target: "idle", idle_ms: 60_000 });
  await rig.replies.ack(rig.parent, await only(rig), "r");
  expect(await rig.redis.pttl(rig.keys.agent(agent).record)).toBe(-1);
});
