/** Guarantee: the record says how long the log is, and what would make the log longer than it may be is refused; nothing is half done. */
import { expect, test } from "vitest";
import { newRequestKey } from "../../../src/shared/protocol/ids.ts";
import type { AgentAddress } from "../../../src/shared/protocol/keys.ts";
import { answerEntry, entryBytes, LOG_MAX_BYTES } from "../../../src/shared/protocol/log.ts";
import { partsOf } from "../../../src/shared/protocol/reply.ts";
import { bodyOf, handedBack, questionsOf, type Rig, SPEC, sentOf, verbRig } from "./rig.ts";

/** The record says that the log has so many bytes. */
function saysBytes(rig: Rig, agent: AgentAddress, bytes: number) {
  return rig.redis.hset(rig.keys.agent(agent).record, "log_bytes", bytes);
}

/** An agent that was spawned to go on from the transcript of `old`. */
async function resumed(rig: Rig, old: AgentAddress, log_bytes = 0): Promise<AgentAddress> {
  const next = rig.address();
  const answer = await rig.store.spawn(next, {
    ...{ request_key: newRequestKey(), digest: "d", stem: "next", name: "Next", spec: JSON.stringify(SPEC) },
    ...{ idle_ms: 60_000, message: "{}", resumes: old.uid, first_run: 2, log_bytes },
  });
  expect(answer).toMatchObject({ status: "spawned" });
  return next;
}

const bytesOf = async (rig: Rig, agent: AgentAddress) => (await rig.store.record(agent))?.log_bytes;

test("commits keep what they are told of the log's length; those that are told nothing leave it", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  expect(await bytesOf(rig, agent)).toBe(0);
  await rig.readFirst(agent, epoch, { ...partsOf(bodyOf("one")), log_bytes: 700 });
  expect(await bytesOf(rig, agent)).toBe(700);
  const result = { epoch, known: 1, running_ms: 1, entries: [["1/a/result", "{}"]] as const };
  await rig.store.append(agent, result);
  expect(await bytesOf(rig, agent)).toBe(700);
  await rig.store.settle(agent, { ...handedBack(epoch), known: 2, target: "idle", log_bytes: 1_400 });
  expect(await bytesOf(rig, agent)).toBe(1_400);
});

test("a message is let in only where the log is not full with it and with all that waits", async () => {
  const rig = verbRig();
  const agent = await rig.spawn();
  const { payload, digest } = sentOf("look", "m-1");
  await saysBytes(rig, agent, LOG_MAX_BYTES - payload.length);
  const before = await rig.everything();
  expect(await rig.send(agent, "look", "m-1")).toEqual({
    status: "log_full",
    log_bytes: LOG_MAX_BYTES - payload.length,
  });
  expect(await rig.everything()).toEqual(before);
  await saysBytes(rig, agent, LOG_MAX_BYTES - payload.length - 1);
  const sent = { message_id: "m-1", payload, digest };
  expect(await rig.store.send(agent, { ...sent, attached: "{}", attached_to: "message:m-1" })).toMatchObject({
    status: "log_full",
  });
  expect(await rig.store.send(agent, sent)).toMatchObject({ status: "queued" });
  expect(await rig.send(agent, "more")).toMatchObject({ status: "log_full" });
});

test("a message that was let in is the same message when the log has become full", async () => {
  const rig = verbRig();
  const agent = await rig.spawn();
  await rig.send(agent, "look", "m-1");
  await saysBytes(rig, agent, LOG_MAX_BYTES);
  expect(await rig.send(agent, "look", "m-1")).toMatchObject({ status: "same" });
});

test("a parent's answer counts once, and is refused where the log has no room for it", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.store.ask(agent, { ...questionsOf(epoch, ["a", "b", "c"]), log_bytes: 100 });
  expect(await bytesOf(rig, agent)).toBe(100);
  const answer = (question_id: string, text: string) =>
    rig.store.answer(agent, { authority: "parent", question_id, entry: answerEntry(text) });
  expect(await answer("1/a", "blue é")).toMatchObject({ status: "waiting" });
  const first = 100 + entryBytes("1/a/result", answerEntry("blue é"));
  expect(await bytesOf(rig, agent)).toBe(first);
  expect(await answer("1/a", "blue é")).toMatchObject({ status: "same" });
  expect(await bytesOf(rig, agent)).toBe(first);
  await saysBytes(rig, agent, LOG_MAX_BYTES - answerEntry("green").length);
  const before = await rig.everything();
  expect(await answer("1/b", "green")).toMatchObject({ status: "log_full" });
  expect(await rig.everything()).toEqual(before);
  expect(await answer("1/b", "red")).toMatchObject({ status: "waiting" });
  await saysBytes(rig, agent, 100);
  expect(await answer("1/c", "red")).toMatchObject({ status: "queued" });
  expect(await bytesOf(rig, agent)).toBe(100 + entryBytes("1/c/result", answerEntry("red")));
});

test("a default answer is taken in any case: its agent goes on", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.store.ask(agent, questionsOf(epoch, ["a"], 1));
  await saysBytes(rig, agent, LOG_MAX_BYTES);
  await rig.redisReaches((await rig.redisNow()) + 3);
  const entry = answerEntry("none came");
  expect(await rig.store.answer(agent, { authority: "sweeper", question_id: "1/a", entry })).toMatchObject({
    status: "queued",
  });
});

test("an agent that goes on from a transcript has the length that it is told", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  await rig.readFirst(agent, epoch);
  await rig.store.settle(agent, handedBack(epoch));
  expect(await bytesOf(rig, await resumed(rig, agent, 700))).toBe(700);
  expect(await bytesOf(rig, await rig.queued())).toBe(0);
});

test("an agent that goes on from a long transcript has each entry of it", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const entries = Array.from({ length: 1_201 }, (_, i) => [`${i}`, `{"n":${i}}`] as const);
  await rig.store.append(agent, { epoch, known: 0, running_ms: 1, entries });
  await rig.store.settle(agent, handedBack(epoch));
  // A transcript expires, a log does not.
  await rig.redis.pexpire(rig.keys.agent(agent).transcript, 60_000);
  const { log } = rig.keys.agent(await resumed(rig, agent));
  expect(await rig.redis.hgetall(log)).toEqual(Object.fromEntries(entries));
  expect(await rig.redis.pttl(log)).toBe(-1);
});
