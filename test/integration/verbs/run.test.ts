/** What a worker may do between claim and settle: renew, append, release. */

import { expect, test } from "vitest";
import { partsOf } from "../../../src/shared/protocol/reply.ts";
import { bodyOf, DESTROY, questionsOf, type Rig, verbRig, wellDone } from "./rig.ts";

const append = (rig: Rig, agent: ReturnType<Rig["address"]>, epoch: number, ...entries: [string, string][]) =>
  rig.store.append(agent, { epoch, known: 0, running_ms: 1, entries });

test("renew moves the lease, keeps the running time and tells of unread messages and of a finish", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const before = Number((await rig.raw(agent)).lease_until);
  await rig.redisReaches(before - 10_000 + 5);
  expect(await rig.store.renew(agent, { epoch, running_ms: 1_234.4 })).toMatchObject({
    status: "ok",
    inbox: 1,
    finish: false,
  });
  const record = await rig.raw(agent);
  expect(Number(record.lease_until)).toBeGreaterThan(before);
  expect(record.deadline).toBe(record.lease_until);
  expect(record.running_ms).toBe("1234");
  await rig.store.finish(agent);
  await rig.send(agent, "two");
  expect(await rig.store.renew(agent, { epoch, running_ms: 1 })).toMatchObject({
    status: "ok",
    inbox: 2,
    finish: true,
  });
});

test("renew by the holder is granted after its lease ran out, as long as nobody took the agent", async () => {
  const rig = verbRig({ timing: { leaseMs: 2 } });
  const { agent, epoch } = await rig.running();
  await rig.redisReaches(Number((await rig.raw(agent)).lease_until) + 1);
  expect(await rig.store.renew(agent, { epoch, running_ms: 1 })).toMatchObject({ status: "ok" });
});

test("a log that has lost entries takes nothing that builds on them; a holder that knows of no more than is left goes on", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await append(rig, agent, epoch, ["0", "{}"], ["1", "{}"]);
  await rig.redis.hdel(rig.keys.agent(agent).log, "1");
  const before = await rig.everything();
  const lost = { epoch, known: 2, running_ms: 1 };
  const answers = [
    await rig.store.append(agent, {
      ...lost,
      entries: [["2", "{}"]],
      consume_to: 1,
      consume_last: agent.uid,
      advances: true,
    }),
    await rig.store.ask(agent, { ...questionsOf(epoch), known: 2 }),
    await rig.store.settle(agent, { ...wellDone(epoch), run: 1, ...lost }),
  ];
  expect(answers.map(({ status }) => status)).toEqual(["stale", "stale", "stale"]);
  expect(await rig.everything()).toEqual(before);
  const left = { ...lost, known: 1 };
  expect(await rig.store.append(agent, { ...left, entries: [["1", "{}"]] })).toMatchObject({
    status: "appended",
  });
});

test("an inbox that has lost the message which was read last, with or without another in its place, keeps what it has", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.send(agent, 'half a character \ud83d, and "message_id":"m-2"', 'm"2\\');
  const consume = { consume_to: 2, consume_last: 'm"2\\' };
  const write = () =>
    rig.store.append(agent, { epoch, known: 0, running_ms: 1, entries: [["0", "{}"]], ...consume });
  const { inbox } = rig.keys.agent(agent);
  const lost = (await rig.redis.rpop(inbox)) ?? "";
  for (const isReplaced of [false, true]) {
    if (isReplaced) await rig.send(agent, '"message_id":"m\\"2\\\\"', "m-3");
    const before = await rig.everything();
    expect(await write()).toMatchObject({ status: "stale" });
    expect(await rig.everything()).toEqual(before);
  }
  await rig.redis.lset(inbox, 1, lost);
  expect(await write()).toMatchObject({ status: "appended", inbox: 0 });
});

type Holder = (rig: Rig, agent: ReturnType<Rig["address"]>, epoch: number) => Promise<{ status: string }>;
const writes: Record<string, Holder> = {
  renew: (rig, agent, epoch) => rig.store.renew(agent, { epoch, running_ms: 999 }),
  append: (rig, agent, epoch) =>
    rig.store.append(agent, {
      epoch,
      known: 0,
      running_ms: 999,
      entries: [["7", "{}"]],
      consume_to: 1,
      consume_last: agent.uid,
      ...partsOf(bodyOf("zombie")),
      advances: true,
      interim_id: "z.1",
      interim: "zombie",
    }),
  release: (rig, agent, epoch) =>
    rig.store.release(agent, { epoch, delay_ms: 5, running_ms: 999, attempts: 3 }),
  settle: (rig, agent, epoch) => rig.store.settle(agent, { ...wellDone(epoch), natural: false }),
};
const losses: Record<string, (rig: Rig, agent: ReturnType<Rig["address"]>, epoch: number) => Promise<void>> =
  {
    "another worker took over": async (rig, agent) => {
      await rig.redisReaches(Number((await rig.raw(agent)).lease_until));
      await rig.claim(agent);
    },
    "it was handed back and taken": async (rig, agent, epoch) => {
      await rig.store.release(agent, { epoch, delay_ms: 0, running_ms: 1, attempts: 0 });
      await rig.claim(agent);
    },
    "run 2 of the kept-alive agent is going on": async (rig, agent, epoch) => {
      await rig.readFirst(agent, epoch);
      await rig.store.settle(agent, { ...wellDone(epoch), target: "idle", idle_ms: 60_000 });
      await rig.send(agent, "again");
      await rig.claim(agent);
    },
  };
for (const [loss, lose] of Object.entries(losses)) {
  for (const [verb, write] of Object.entries(writes)) {
    test(`${verb} with an old epoch is stale and changes nothing when ${loss}`, async () => {
      const rig = verbRig({ timing: { leaseMs: 5 } });
      const { agent, epoch } = await rig.running();
      await lose(rig, agent, epoch);
      const before = await rig.everything();
      expect(await write(rig, agent, epoch)).toMatchObject({ status: "stale" });
      expect(await rig.everything()).toEqual(before);
    });
  }
}
/** Ways in which a holder itself gives the agent up; no other epoch has been given out yet. */
const goodbyes: Record<
  string,
  (rig: Rig, agent: ReturnType<Rig["address"]>, epoch: number) => Promise<unknown>
> = {
  "handed the agent back": (rig, agent, epoch) =>
    rig.store.release(agent, { epoch, delay_ms: 0, running_ms: 1, attempts: 0 }),
  "settled its run and the agent is idle": async (rig, agent, epoch) => {
    await rig.readFirst(agent, epoch);
    await rig.store.settle(agent, { ...wellDone(epoch), target: "idle", idle_ms: 60_000 });
  },
  "settled its run and the agent is queued again": (rig, agent, epoch) =>
    rig.store.settle(agent, { ...wellDone(epoch), natural: false, target: "idle", idle_ms: 60_000 }),
  "settled its run and the agent has ended": (rig, agent, epoch) =>
    rig.store.settle(agent, { ...wellDone(epoch), natural: false }),
};
for (const [goodbye, leave] of Object.entries(goodbyes)) {
  for (const verb of ["renew", "append"]) {
    test(`a late ${verb} by a holder that has ${goodbye} is stale and changes nothing`, async () => {
      const rig = verbRig();
      const { agent, epoch } = await rig.running();
      await leave(rig, agent, epoch);
      const before = await rig.everything();
      expect(await writes[verb]?.(rig, agent, epoch)).toMatchObject({ status: "stale" });
      expect(await rig.everything()).toEqual(before);
    });
  }
}
for (const [verb, write] of Object.entries(writes)) {
  test(`${verb} changes nothing once the parent has destroyed the agent`, async () => {
    const rig = verbRig();
    const { agent, epoch } = await rig.running();
    await rig.store.settle(agent, DESTROY);
    const before = await rig.everything();
    expect(await write(rig, agent, epoch)).toMatchObject({ status: verb === "settle" ? "same" : "stale" });
    expect(await rig.everything()).toEqual(before);
  });
  test(`${verb} with an epoch that was never given out is stale`, async () => {
    const rig = verbRig();
    const { agent, epoch } = await rig.running();
    const before = await rig.everything();
    expect(await write(rig, agent, epoch + 1)).toMatchObject({ status: "stale" });
    expect(await rig.everything()).toEqual(before);
  });
}

test("an append commits its entries, cursor, progress, step and interim message together", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.send(agent, "two");
  const answer = await rig.store.append(agent, {
    epoch,
    known: 0,
    running_ms: 40,
    entries: [
      ["0", '{"n":0}'],
      ["0/t/started", "{}"],
    ],
    consume_to: 1,
    consume_last: agent.uid,
    ...partsOf(bodyOf("so far")),
    advances: true,
    interim_id: "i-1",
    interim: "half way",
  });
  expect(answer).toMatchObject({ status: "appended", inbox: 1, finish: false });
  const state = await rig.store.load(agent);
  expect(state?.record).toMatchObject({ inbox_read: 1, running_ms: 40, attempts: 0 });
  expect(state?.record.progress?.summary).toBe("so far");
  expect([...(state?.log ?? [])].sort()).toEqual([
    ["0", '{"n":0}'],
    ["0/t/started", "{}"],
  ]);
  expect(state?.inbox.map(({ text }) => text)).toEqual(["two"]);
  const entries = await rig.replies.read(rig.parent, "0", 10);
  expect(entries.map(({ entry }) => entry)).toMatchObject([
    {
      kind: "message",
      reply_id: "i-1",
      text: "half way",
      agent_status: "running",
      agent_id: "researcher",
      run: 1,
    },
  ]);
});

test("an append of what is stored already is the same: no second step, interim message or consumption", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.send(agent, "two");
  const input = {
    epoch,
    known: 0,
    running_ms: 1,
    entries: [["0", '{"n":0}']] as const,
    consume_to: 1,
    consume_last: agent.uid,
    advances: true,
    interim_id: "i-1",
    interim: "half way",
  };
  await rig.store.append(agent, input);
  const before = await rig.everything();
  expect(await rig.store.append(agent, input)).toMatchObject({ status: "same", inbox: 1 });
  expect(await rig.everything()).toEqual(before);
});

test("an entry stored with other content is a conflict that writes nothing", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await append(rig, agent, epoch, ["1", "first"], ["2", "second"]);
  const before = await rig.everything();
  const answer = await rig.store.append(agent, {
    epoch,
    known: 0,
    running_ms: 9,
    entries: [
      ["1", "other"],
      ["2", "second"],
      ["3", "third"],
    ],
    consume_to: 1,
    consume_last: agent.uid,
    ...partsOf(bodyOf("no")),
    advances: true,
    interim_id: "i",
    interim: "no",
  });
  expect(answer).toEqual({ status: "conflict" });
  expect(await rig.everything()).toEqual(before);
});

test("an append of which a part is stored adds the rest and leaves that part alone", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await append(rig, agent, epoch, ["1", "first"]);
  expect(await append(rig, agent, epoch, ["1", "first"], ["2", "second"])).toMatchObject({
    status: "appended",
  });
  expect(Object.fromEntries((await rig.store.load(agent))?.log ?? [])).toEqual({
    "1": "first",
    "2": "second",
  });
});

test("parallel tools of one turn commit in any order without contending", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) => append(rig, agent, epoch, [`1/t${i}/result`, `r${i}`])),
  );
  expect(answers.every(({ status }) => status === "appended")).toBe(true);
  expect((await rig.store.load(agent))?.log.size).toBe(20);
});

test("the inbox cursor is absolute: it reads on where the last one stood and never goes back", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  for (const text of ["two", "three", "four"]) await rig.send(agent, text, text);
  const consume = (entry: string, to: number, last: string) =>
    rig.store.append(agent, {
      epoch,
      known: 0,
      running_ms: 1,
      entries: [[entry, "{}"]],
      consume_to: to,
      consume_last: last,
    });
  await consume("0", 2, "two");
  expect((await rig.store.inbox(agent)).map(({ text }) => text)).toEqual(["three", "four"]);
  await consume("2", 1, agent.uid);
  expect(await rig.store.record(agent)).toMatchObject({ inbox_read: 2 });
  await consume("4", 3, "three");
  expect((await rig.store.inbox(agent)).map(({ text }) => text)).toEqual(["four"]);
});

test("a release queues the agent with a new wake, its delay, its attempts and no lease", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const input = { epoch, delay_ms: 5_000, running_ms: 77, attempts: 2 };
  expect(await rig.store.release(agent, input)).toMatchObject({ status: "released", wake: 2 });
  const raw = await rig.raw(agent);
  expect(raw).toMatchObject({ status: "queued", wake: "2", running_ms: "77", attempts: "2", run: "1" });
  expect(raw.lease_until).toBeUndefined();
  expect(Number(raw.deadline)).toBe(Number(raw.not_before) + 10_000);
  const before = await rig.everything();
  expect(await rig.store.release(agent, input)).toMatchObject({ status: "released", wake: 2 });
  expect(await rig.everything()).toEqual(before);
});

test("a hand-back, and a commit behind which no call follows, leave no call under way; a crash does", async () => {
  const rig = verbRig();
  const begunOf = async (agent: ReturnType<Rig["address"]>) => (await rig.raw(agent)).begun;
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch, { begun: "1.1@2" });
  const results = { epoch, known: 1, running_ms: 2, entries: [["1/a/result", "{}"]] as const };
  expect(await begunOf(agent)).toBe("1.1@2");
  await rig.store.append(agent, { ...results, no_purchase: true });
  expect(await begunOf(agent)).toBe("");
  for (const crashed of [true, false]) {
    const held = await rig.running();
    const claimed = await begunOf(held.agent);
    expect(claimed).not.toBe("");
    const handBack = { epoch: held.epoch, delay_ms: 0, running_ms: 1, attempts: 0 };
    await rig.store.release(held.agent, { ...handBack, crashed });
    expect(await begunOf(held.agent)).toBe(crashed ? claimed : "");
  }
});

test("a release says since when a provider has failed the run; an advance or another reason ends that", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const handBack = { delay_ms: 0, running_ms: 1, attempts: 1 };
  const failed = { ...handBack, provider_wait: '{"provider":"p","reason":"overloaded"}' };
  const since = async () => Number((await rig.raw(agent)).provider_wait_since);
  await rig.store.release(agent, { ...failed, epoch: await rig.claim(agent) });
  const first = await since();
  await rig.redisReaches(first + 2);
  await rig.store.release(agent, { ...failed, epoch: await rig.claim(agent) });
  expect(await since()).toBe(first);
  const epoch = await rig.claim(agent);
  await rig.readFirst(agent, epoch, { advances: true });
  await rig.store.release(agent, { ...failed, epoch });
  expect(await since()).toBeGreaterThan(first);
  await rig.store.release(agent, { ...handBack, epoch: await rig.claim(agent) });
  const raw = await rig.raw(agent);
  expect([raw.provider_wait, raw.provider_wait_since]).toEqual([undefined, undefined]);
});

test("a release is never looked at later than the greatest age of its message", async () => {
  const rig = verbRig({ timing: { maxAgeMs: 60_000, leaseMs: 5 } });
  const { agent, epoch } = await rig.running();
  await rig.store.release(agent, { epoch, delay_ms: 600_000, running_ms: 1, attempts: 0 });
  const raw = await rig.raw(agent);
  expect(Number(raw.deadline)).toBe(Number(raw.unanswered_since) + 60_000);
});

test("a finish is asked of a run that is coming or going on, and of nothing else", async () => {
  const rig = verbRig();
  const idle = await rig.spawn();
  expect(await rig.store.finish(idle)).toMatchObject({ status: "idle" });
  expect((await rig.store.record(idle))?.finish).toBe(false);
  const queued = await rig.queued();
  expect(await rig.store.finish(queued)).toMatchObject({ status: "finishing", run: 1 });
  expect((await rig.store.record(queued))?.finish).toBe(true);
  await rig.store.settle(queued, DESTROY);
  expect(await rig.store.finish(queued)).toMatchObject({ status: "ended", reason: "destroyed" });
  expect(await rig.store.finish(rig.address())).toMatchObject({ status: "unknown" });
});
