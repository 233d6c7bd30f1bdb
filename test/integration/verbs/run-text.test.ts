/** Guarantee: a text that stands only in the log reaches everybody who asks for it, and keeps no run from its end. */
import { expect, test } from "vitest";
import type { ContentBlock } from "../../../src/shared/protocol/content.ts";
import { type AgentAddress, replyIdOf } from "../../../src/shared/protocol/keys.ts";
import { partsOf } from "../../../src/shared/protocol/reply.ts";
import type { VerbInput } from "../../../src/shared/redis/scripts.ts";
import { newAnswer } from "../../../src/worker/loop/log.ts";
import { bodyOf, DESTROY, MAX_AGE_END, type Rig, SPEC, verbRig, workerLost } from "./rig.ts";

const text = (words: string): ContentBlock => ({ type: "text", text: words });
const call: ContentBlock = { type: "tool_use", id: "c", name: "look", input: { text: "no" } };
const CONTENT = [
  text("\n so "),
  call,
  { type: "server_note", text: "neither" },
  text('far "\u{1F98A}" \u00a0.\t '),
];
const SAID = 'so far "\u{1F98A}" \u00a0.';

function answerOf(content: readonly ContentBlock[], message = 1): readonly [string, string] {
  const { usage } = bodyOf("");
  const bought = { content, contentJson: JSON.stringify(content), stopReason: "tool_use" };
  const { key, json } = newAnswer(message, { ...bought, model: SPEC.model, usage, costUsd: 0 }, 1);
  return [key, json];
}

/** What a commit is told whose text is that of message `said`. */
function saying(said: number): Pick<VerbInput<"append">, "progress"> {
  return { progress: { said, ...partsOf(bodyOf("")).progress } };
}

/** A running agent that has said something, with its text only in the log. */
async function talking(rig: Rig): Promise<{ agent: AgentAddress; epoch: number }> {
  const held = await rig.running();
  const { agent, epoch } = held;
  await rig.readFirst(agent, epoch, { entries: [["0", "{}"], answerOf(CONTENT)], ...saying(1) });
  expect(await rig.raw(agent)).not.toHaveProperty("summary");
  return held;
}

async function replyOf(rig: Rig) {
  const [item] = await rig.replies.read(rig.parent, "0", 10);
  return item?.entry;
}

test.for([
  ["its parent", DESTROY],
  ["a sweeper", MAX_AGE_END],
] as const)("a run that %s ends replies with it, and its record keeps it", async ([, how]) => {
  const rig = verbRig();
  const { agent } = await talking(rig);
  await rig.age(agent);
  expect(await rig.store.settle(agent, how)).toMatchObject({ status: "settled" });
  expect(await replyOf(rig)).toMatchObject({ kind: "ended", summary: SAID });
  expect((await rig.store.record(agent))?.progress?.summary).toBe(SAID);
});

test("a run that a worker settles unread replies with it", async () => {
  const rig = verbRig();
  const { agent, epoch } = await talking(rig);
  const { summary: _, ...unread } = workerLost(epoch);
  expect(await rig.store.settle(agent, unread)).toMatchObject({ status: "settled" });
  expect(await replyOf(rig)).toMatchObject({ status: "failed", summary: SAID });
});

test("the parent reads it while the run goes on, and the next worker", async () => {
  const rig = verbRig();
  const { agent, epoch } = await talking(rig);
  const [live] = await rig.store.liveRecords(rig.parent);
  const read = [await rig.store.record(agent), (await rig.store.load(agent))?.record, live];
  expect(read.map((record) => record?.progress?.summary)).toEqual([SAID, SAID, SAID]);
  await rig.store.release(agent, { epoch, delay_ms: 0, running_ms: 1, attempts: 0 });
  const claimed = await rig.store.claim(agent, { claim_id: "next", worker: "w" });
  if (claimed.status !== "claimed") throw new Error(claimed.status);
  expect((await rig.store.claimed(agent, claimed)).record.progress?.summary).toBe(SAID);
});

test("an answer without a text leaves the one before", async () => {
  const rig = verbRig();
  const { agent, epoch } = await talking(rig);
  const mute = { epoch, known: 2, running_ms: 2, entries: [answerOf([call], 3)], ...saying(1) };
  expect(await rig.store.append(agent, mute)).toMatchObject({ status: "appended" });
  await rig.store.settle(agent, DESTROY);
  expect(await replyOf(rig)).toMatchObject({ summary: SAID });
});

const LOST: Readonly<Record<string, string | undefined>> = {
  "is gone": undefined,
  "is no JSON": '{"content":[',
  "is no answer": '{"content":7}',
  "has blocks of no kind": '{"content":[1]}',
  "says nothing": '{"content":[]}',
};

test.for(Object.keys(LOST))("where the message %s, the run ends without it", async (how) => {
  const rig = verbRig();
  const { agent } = await talking(rig);
  const { log } = rig.keys.agent(agent);
  const stored = LOST[how];
  if (stored === undefined) await rig.redis.del(log);
  else await rig.redis.hset(log, "1", stored);
  expect((await rig.store.record(agent))?.progress?.summary).toBe("(no summary)");
  expect(await rig.store.settle(agent, DESTROY)).toMatchObject({ status: "settled" });
  expect(await replyOf(rig)).toMatchObject({ summary: "(no summary)", turns: 1 });
});

test("it takes the place of a text that had to be cut, also of the whole one", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const cut = { run: 1, ...partsOf(bodyOf("cut")), whole_text: "not cut" };
  await rig.readFirst(agent, epoch, cut);
  const whole = rig.keys.parent(agent).text(replyIdOf(agent.uid, 1));
  expect([(await rig.raw(agent)).summary, await rig.redis.get(whole)]).toEqual(["cut", "not cut"]);
  const next = { run: 1, epoch, known: 1, running_ms: 2, entries: [answerOf(CONTENT)], ...saying(1) };
  await rig.store.append(agent, { ...next, forgets_summary: true });
  expect([(await rig.raw(agent)).summary, await rig.redis.exists(whole)]).toEqual([undefined, 0]);
  expect((await rig.store.record(agent))?.progress?.summary).toBe(SAID);
});

test("an agent that ends between two reads is read once more", async () => {
  const rig = verbRig();
  const { agent } = await talking(rig);
  const hget = rig.redis.hget.bind(rig.redis);
  Object.assign(rig.redis, {
    async hget(key: string, field: string) {
      await rig.store.settle(agent, DESTROY);
      return hget(key, field);
    },
  });
  expect(await rig.store.record(agent)).toMatchObject({ status: "ended", progress: { summary: SAID } });
});
