import { expect, test } from "vitest";
import { keptReply } from "../../../src/shared/redis/replies.ts";
import { DESTROY, handedBack, type Rig, verbRig, wellDone } from "./rig.ts";

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

test("after the ack of its end a record still answers for its agent, without what only a worker needed", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.store.settle(agent, handedBack(epoch));
  const entry = await only(rig);
  const before = await rig.raw(agent);
  await rig.replies.ack(rig.parent, entry, "reader-1");
  const { begun, breaks, end_entry, message_ids, running_ms, settled_epoch, worker, ...answers } = before;
  expect(await rig.raw(agent)).toEqual(answers);
  expect([end_entry, settled_epoch, worker].every((value) => value !== undefined)).toBe(true);
  const record = await rig.store.record(agent);
  expect(record && keptReply(record)).toEqual(entry);
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
