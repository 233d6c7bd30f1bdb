import { expect, test } from "vitest";
import {
  ATTACHED_MAX_WAITING,
  INBOX_MAX_BYTES,
  MESSAGE_MAX_BYTES,
  MessageText,
} from "../../../src/shared/protocol/message.ts";
import { DESTROY, handedBack, IDLE_END, messageOf, sentOf, verbRig, wellDone } from "./rig.ts";

test("a message to an idle agent queues run 1 with wake 1 and takes the time limit off its life key", async () => {
  const rig = verbRig();
  const agent = await rig.spawn();
  const before = await rig.redisNow();
  expect(await rig.send(agent, "look")).toMatchObject({ status: "queued", run: 1, wake: 1 });
  const record = await rig.store.record(agent);
  expect(record).toMatchObject({ status: "queued", run: 1, wake: 1 });
  expect(record?.deadline).toBeGreaterThanOrEqual(before + 10_000);
  expect(record?.deadline).toBeLessThanOrEqual((await rig.redisNow()) + 10_000);
  expect(await rig.redis.pttl(rig.keys.agent(agent).life)).toBe(-1);
  expect((await rig.store.inbox(agent)).map(({ text }) => text)).toEqual(["look"]);
});

test("a message to a queued or running agent is delivered to the run that is coming or going on", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  expect(await rig.send(agent, "two")).toMatchObject({
    status: "delivered",
    run: 1,
    agent_status: "queued",
  });
  await rig.claim(agent);
  expect(await rig.send(agent, "three")).toMatchObject({
    status: "delivered",
    run: 1,
    agent_status: "running",
  });
  expect((await rig.store.inbox(agent)).map(({ text }) => text)).toEqual(["look", "two", "three"]);
  expect(await rig.store.record(agent)).toMatchObject({ wake: 1, run: 1 });
});

test("a message_id seen is the same message: it is not delivered again", async () => {
  const rig = verbRig();
  const agent = await rig.spawn();
  await rig.send(agent, "look", "m-1");
  const before = await rig.everything();
  expect(await rig.send(agent, "look", "m-1")).toMatchObject({
    status: "same",
    run: 1,
    wake: 1,
    agent_status: "queued",
  });
  expect(await rig.everything()).toEqual(before);
});

test("a message_id seen with another text is a conflict and delivers nothing", async () => {
  const rig = verbRig();
  const agent = await rig.spawn();
  await rig.send(agent, "look", "m-1");
  const before = await rig.everything();
  expect(await rig.send(agent, "look elsewhere", "m-1")).toMatchObject({ status: "conflict" });
  expect(await rig.everything()).toEqual(before);
});

test("a message_id is remembered for a day, also beyond the agent's end", async () => {
  const rig = verbRig();
  const agent = await rig.spawn();
  await rig.send(agent, "look", "m-1");
  await rig.store.settle(agent, DESTROY);
  expect(await rig.send(agent, "look", "m-1")).toMatchObject({ status: "same", agent_status: "ended" });
  const left = await rig.redis.pttl(rig.keys.agent(agent).message("m-1"));
  expect(left).toBeGreaterThan(23.9 * 3_600_000);
});

test("one message_id may name two messages to two agents", async () => {
  const rig = verbRig();
  const [one, two] = [await rig.spawn(), await rig.spawn()];
  expect(await rig.send(one, "look", "m-1")).toMatchObject({ status: "queued" });
  expect(await rig.send(two, "listen", "m-1")).toMatchObject({ status: "queued" });
});

test("an ended agent refuses with its reason, and keeps nothing", async () => {
  const rig = verbRig();
  const agent = await rig.spawn();
  await rig.store.settle(agent, DESTROY);
  const before = await rig.everything();
  expect(await rig.send(agent, "hello?")).toMatchObject({ status: "ended", reason: "destroyed" });
  expect(await rig.everything()).toEqual(before);
});

test("an agent nobody spawned is unknown, and so is one of another parent", async () => {
  const rig = verbRig();
  const agent = await rig.spawn();
  expect(await rig.send(rig.address(), "hello?")).toMatchObject({ status: "unknown" });
  expect(await rig.send({ ...agent, parentId: "other" }, "hello?")).toMatchObject({ status: "unknown" });
  expect(await rig.send({ ...agent, tenant: "other" }, "hello?")).toMatchObject({ status: "unknown" });
});

test("an inbox takes 64 unread messages and no more, until some are read", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  for (let i = 1; i < 64; i += 1) await rig.send(agent, `m${i}`);
  const before = await rig.everything();
  expect(await rig.send(agent, "one too many")).toMatchObject({ status: "inbox_full", messages: 64 });
  expect(await rig.everything()).toEqual(before);
  await rig.readFirst(agent, epoch);
  expect(await rig.send(agent, "now")).toMatchObject({ status: "delivered" });
});

test("an inbox takes one megabyte of unread messages and no byte more", async () => {
  const rig = verbRig();
  const agent = await rig.spawn();
  const overhead = Buffer.byteLength(JSON.stringify(messageOf("", "m-1")));
  expect(await rig.send(agent, "x".repeat(INBOX_MAX_BYTES - overhead), "m-1")).toMatchObject({
    status: "queued",
  });
  expect(await rig.send(agent, "y", "m-2")).toMatchObject({ status: "inbox_full", messages: 1 });
  const tight = await rig.spawn();
  const half = INBOX_MAX_BYTES / 2 - overhead;
  expect(await rig.send(tight, "x".repeat(half), "m-1")).toMatchObject({ status: "queued" });
  const tooLong = await rig.send(tight, "x".repeat(half + 1), "m-2");
  expect(tooLong).toMatchObject({ status: "inbox_full", messages: 1 });
  expect(await rig.send(tight, "x".repeat(half), "m-3")).toMatchObject({ status: "delivered" });
});

test("an empty inbox takes one message of any allowed text, also if its stored form has more than a megabyte", async () => {
  const rig = verbRig();
  const agent = await rig.spawn();
  const text = "\u001b".repeat(MESSAGE_MAX_BYTES);
  expect(MessageText.safeParse(text).success).toBe(true);
  expect(await rig.send(agent, text, "m-1")).toMatchObject({ status: "queued" });
  expect(await rig.store.inbox(agent)).toEqual([messageOf(text, "m-1")]);
  expect(await rig.send(agent, "y", "m-2")).toMatchObject({ status: "inbox_full", messages: 1 });
});

test("an unread message does not age with the one before it that was read", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.send(agent, "two");
  const later = (await rig.redisNow()) + 3;
  await rig.redisReaches(later);
  await rig.readFirst(agent, epoch);
  await rig.store.settle(agent, { ...handedBack(epoch), target: "idle", idle_ms: 5_000 });
  expect(Number((await rig.raw(agent)).unanswered_since)).toBeGreaterThanOrEqual(later);
});

test("the files of unread messages have sixteen million characters together and not one more", async () => {
  const rig = verbRig();
  const agent = await rig.spawn();
  const withFiles = (id: string, chars: number) =>
    rig.store.send(agent, {
      ...sentOf("look", id),
      attached: "x".repeat(chars),
      attached_to: `message:${id}`,
    });
  const part = ATTACHED_MAX_WAITING / 16;
  for (let n = 1; n < 16; n += 1)
    expect((await withFiles(`m-${n}`, part)).status).toBe(n === 1 ? "queued" : "delivered");
  expect(await withFiles("m-16", part - 1)).toMatchObject({ status: "delivered" });
  expect(await withFiles("m-17", 2)).toMatchObject({ status: "inbox_full" });
  expect(await withFiles("m-18", 1)).toMatchObject({ status: "delivered" });
});

test("a message revives an agent whose idle time is over but which nobody has settled", async () => {
  const rig = verbRig();
  const agent = await rig.spawn({ idleMs: 1 });
  await rig.redisReaches((await rig.redisNow()) + 3);
  expect(await rig.redis.exists(rig.keys.agent(agent).life)).toBe(0);
  expect(await rig.send(agent, "look")).toMatchObject({ status: "queued" });
  expect(await rig.redis.pttl(rig.keys.agent(agent).life)).toBe(-1);
  expect(await rig.store.settle(agent, IDLE_END)).toMatchObject({ status: "not_due" });
});

test("a kept-alive agent counts runs and wakes on, and starts each run with fresh counters", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch, { running_ms: 70 });
  await rig.store.finish(agent);
  await rig.store.settle(agent, { ...wellDone(epoch), target: "idle", idle_ms: 5_000 });
  expect(await rig.send(agent, "again")).toMatchObject({ status: "queued", run: 2, wake: 2 });
  const record = await rig.store.record(agent);
  expect(record).toMatchObject({ run: 2, running_ms: 0, attempts: 0, crashes_without_progress: 0 });
  expect(record?.progress).toBeUndefined();
  expect(record?.finish).toBe(false);
});

test("an unanswered message sets the agent's greatest age from the moment it was accepted, not from later ones", async () => {
  const rig = verbRig();
  const agent = await rig.queued();
  const first = (await rig.raw(agent)).unanswered_since;
  await rig.redisReaches(Number(first) + 3);
  await rig.send(agent, "two");
  expect((await rig.raw(agent)).unanswered_since).toBe(first);
});

test("messages that a reply left unread age from the moment the first was accepted, not from the reply or a later one", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  const before = await rig.redisNow();
  await rig.send(agent, "two");
  const after = await rig.redisNow();
  await rig.redisReaches(after + 3);
  await rig.send(agent, "three");
  await rig.store.settle(agent, { ...handedBack(epoch), target: "idle", idle_ms: 5_000 });
  const since = Number((await rig.raw(agent)).unanswered_since);
  expect(since).toBeGreaterThanOrEqual(before);
  expect(since).toBeLessThanOrEqual(after);
});
