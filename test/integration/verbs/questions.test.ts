/** Asking and answering: every guard of the two scripts, and what they leave behind. */

import { expect, test } from "vitest";
import { answerEntry } from "../../../src/shared/protocol/log.ts";
import { DESTROY, MAX_AGE_END, questionsOf, type Rig, verbRig, wellDone } from "./rig.ts";

const byParent = (text: string, questionId = "1/a") => ({
  authority: "parent" as const,
  question_id: questionId,
  entry: answerEntry(text),
});
const bySweeper = (text: string, questionId = "1/a") => ({
  authority: "sweeper" as const,
  question_id: questionId,
  entry: answerEntry(text),
});
const entriesOf = async (rig: Rig) =>
  (await rig.replies.read(rig.parent, "0", 100)).map(({ entry }) => entry);
const logOf = (rig: Rig, agent: ReturnType<Rig["address"]>) => rig.redis.hgetall(rig.keys.agent(agent).log);

test("asking marks the calls, tells the parent and hands the agent back, all in one", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const text = "Which “colour”?\n\u0001 \\ 𝒶";
  const asked = questionsOf(epoch, ["a", "b"]);
  const input = {
    ...asked,
    questions: (asked.questions ?? []).map(([id, started, question, none], i) =>
      i === 0 ? ([id, started, text, "white"] as const) : ([id, started, question, none] as const),
    ),
  };
  await rig.redis.hset(rig.keys.agent(agent).record, { crashes_without_progress: 1, attempts: 2 });
  const beforeMs = await rig.redisNow();
  const answer = await rig.store.ask(agent, input);
  const deadline = answer.status === "asked" ? Number(answer.deadline) : 0;
  expect(deadline - beforeMs).toBeGreaterThanOrEqual(60_000);
  expect(await logOf(rig, agent)).toEqual({
    "1/a/started": '{"v":1,"name":"ask_parent"}',
    "1/b/started": '{"v":1,"name":"ask_parent"}',
  });
  const answer_by = new Date(deadline).toISOString();
  const head = { kind: "question", agent_status: "waiting", run: 1, answer_by };
  expect(await entriesOf(rig)).toMatchObject([
    { ...head, question_id: "1/a", text, default_answer: "white", reply_id: `${agent.uid}.1/a` },
    { ...head, question_id: "1/b", text: "b?" },
  ]);
  expect((await entriesOf(rig))[1]).not.toHaveProperty("default_answer");
  expect(await rig.store.record(agent)).toMatchObject({
    status: "waiting",
    deadline,
    running_ms: 5,
    progress: { summary: "so far" },
    questions: [
      { question_id: "1/a", text, default_answer: "white" },
      { question_id: "1/b", text: "b?" },
    ],
  });
  const raw = await rig.raw(agent);
  expect(raw).toMatchObject({ committed: "1", crashes_without_progress: "0", attempts: "0" });
  expect(raw).not.toHaveProperty("lease_until");
  expect(await rig.redis.pttl(rig.keys.agent(agent).life)).toBe(-1);
});

test("a question waits no longer than its message may stay unanswered", async () => {
  const rig = verbRig({ timing: { maxAgeMs: 5_000, leaseMs: 1_000 } });
  const { agent } = await rig.waiting();
  const { unanswered_since, deadline } = await rig.raw(agent);
  expect(Number(deadline)).toBe(Number(unanswered_since) + 5_000);
  expect(await rig.store.overdue(agent)).toMatchObject({ status: "not_due", deadline: Number(deadline) });
  await rig.age(agent);
  expect(await rig.store.overdue(agent)).toMatchObject({ status: "max_age_over" });
  expect(await rig.store.settle(agent, MAX_AGE_END)).toMatchObject({ status: "settled" });
});

test("only the holder asks, and not once the parent wants an end", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.running();
  const queued = await rig.queued();
  const before = await rig.everything();
  expect(await rig.store.ask(agent, questionsOf(epoch + 1))).toMatchObject({ status: "stale" });
  expect(await rig.store.ask(queued, questionsOf(0))).toMatchObject({ status: "stale" });
  expect(await rig.store.ask(rig.address(), questionsOf(1))).toMatchObject({ status: "stale" });
  expect(await rig.everything()).toEqual(before);
  await rig.store.finish(agent);
  expect(await rig.store.ask(agent, questionsOf(epoch))).toMatchObject({ status: "finishing" });
  expect(await rig.raw(agent)).toMatchObject({ status: "running" });
  expect(await entriesOf(rig)).toEqual([]);
});

test("a waiting agent is nobody's: no claim takes it, and whoever held it writes nothing more", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.waiting();
  const before = await rig.everything();
  expect(await rig.store.claim(agent, { claim_id: "c-2", worker: "w" })).toMatchObject({
    status: "nothing",
    agent_status: "waiting",
  });
  expect(await rig.store.renew(agent, { epoch, running_ms: 9 })).toMatchObject({ status: "stale" });
  const step = { epoch, known: 0, running_ms: 9, entries: [["2", "{}"]] as const };
  expect(await rig.store.append(agent, step)).toMatchObject({ status: "stale" });
  const back = { epoch, delay_ms: 0, running_ms: 9, attempts: 0 };
  expect(await rig.store.release(agent, back)).toMatchObject({ status: "stale" });
  expect(await rig.store.settle(agent, wellDone(epoch))).toMatchObject({ status: "stale" });
  expect(await rig.store.requeue(agent, { expected_wake: 1 })).toMatchObject({
    status: "not_due",
  });
  expect(await rig.everything()).toEqual(before);
  expect(await rig.send(agent, "hurry")).toMatchObject({ status: "delivered", agent_status: "waiting" });
});

test("the last answer queues the agent with a new wake, and its next run goes on where it was", async () => {
  const rig = verbRig();
  const { agent, epoch } = await rig.waiting(["a", "b", "c"]);
  expect(await rig.store.answer(agent, byParent("two", "1/b"))).toMatchObject({
    status: "waiting",
    open: 2,
  });
  expect((await rig.store.record(agent))?.questions?.map((each) => each.question_id)).toEqual(["1/a", "1/c"]);
  expect(await rig.store.answer(agent, byParent("one"))).toMatchObject({ status: "waiting", open: 1 });
  const beforeMs = await rig.redisNow();
  const last = await rig.store.answer(agent, byParent("three", "1/c"));
  expect(last).toMatchObject({ status: "queued", run: 1, wake: 2 });
  const raw = await rig.raw(agent);
  expect(raw).toMatchObject({ status: "queued", wake: "2", running_ms: "5", epoch: `${epoch}` });
  expect(Number(raw.deadline)).toBeGreaterThanOrEqual(beforeMs + rig.store.timing.checkMs);
  expect(raw).not.toHaveProperty("questions");
  expect(JSON.parse((await logOf(rig, agent))["1/b/result"] ?? "")).toEqual({
    v: 1,
    content: "two",
  });
  expect(await rig.claim(agent)).toBeGreaterThan(epoch);
});

test("the first answer stands, be it the parent's or the default", async () => {
  const rig = verbRig({ timing: { checkMs: 60_000 } });
  const { agent } = await rig.waiting(["a", "b"], 1);
  await rig.redisReaches((await rig.redisNow()) + 3);
  expect(await rig.store.overdue(agent)).toMatchObject({ status: "answer_due" });
  expect(await rig.store.answer(agent, byParent("mine"))).toMatchObject({ status: "waiting" });
  expect(await rig.store.answer(agent, bySweeper("default"))).toMatchObject({ status: "answered" });
  expect(await rig.store.answer(agent, bySweeper("default", "1/b"))).toMatchObject({ status: "queued" });
  const before = await rig.everything();
  expect(await rig.store.answer(agent, byParent("mine", "1/b"))).toMatchObject({ status: "answered" });
  expect(await rig.store.answer(agent, byParent("mine"))).toMatchObject({
    status: "same",
    wake: 2,
    agent_status: "queued",
  });
  expect(await rig.everything()).toEqual(before);
});

test("an answer that stands while its question is still open is carried through by the next one, whoever gives it", async () => {
  const rig = verbRig({ timing: { checkMs: 60_000 } });
  // A command that failed behind the write into the log left it so.
  const halfDone = async (ids: readonly string[]) => {
    const { agent } = await rig.waiting([...ids]);
    await rig.store.answer(agent, byParent("mine"));
    const written = await logOf(rig, agent);
    const other = await rig.waiting([...ids]);
    await rig.redis.hset(rig.keys.agent(other.agent).log, "1/a/result", written["1/a/result"] ?? "");
    return other.agent;
  };
  const repeated = await halfDone(["a"]);
  expect(await rig.store.answer(repeated, byParent("mine"))).toMatchObject({ status: "queued", wake: 2 });
  expect(await rig.store.answer(repeated, byParent("mine"))).toMatchObject({ status: "same" });
  const another = await halfDone(["a"]);
  expect(await rig.store.answer(another, byParent("yours"))).toMatchObject({ status: "answered" });
  expect(await rig.raw(another)).toMatchObject({ status: "queued", wake: "2" });
  const anotherOfTwo = await halfDone(["a", "b"]);
  expect(await rig.store.answer(anotherOfTwo, byParent("yours"))).toMatchObject({ status: "answered" });
  expect((await rig.store.record(anotherOfTwo))?.questions).toMatchObject([{ question_id: "1/b" }]);
  const oneOfTwo = await halfDone(["a", "b"]);
  expect(await rig.store.answer(oneOfTwo, byParent("mine"))).toMatchObject({ status: "waiting", open: 1 });
  const log = await logOf(rig, another);
  expect(JSON.parse(log["1/a/result"] ?? "")).toMatchObject({ content: "mine" });
});

test("a default comes at the deadline and no earlier; its parent may answer at any time", async () => {
  const rig = verbRig();
  const { agent } = await rig.waiting();
  const { deadline } = await rig.raw(agent);
  const before = await rig.everything();
  expect(await rig.store.answer(agent, bySweeper("default"))).toMatchObject({
    status: "not_due",
    deadline: Number(deadline),
  });
  expect(await rig.everything()).toEqual(before);
  expect(await rig.store.answer(agent, byParent("mine"))).toMatchObject({ status: "queued" });
});

test("what is no open question takes no answer: another call's result cannot be written this way", async () => {
  const rig = verbRig();
  const { agent } = await rig.waiting();
  const { agent: running } = await rig.running();
  const ended = await rig.spawn();
  await rig.store.settle(ended, DESTROY);
  const before = await rig.everything();
  const answers = [
    await rig.store.answer(agent, byParent("x", "1/other")),
    await rig.store.answer(agent, byParent("x", "")),
    await rig.store.answer(running, byParent("x")),
    await rig.store.answer(await rig.address(), byParent("x")),
    await rig.store.answer(ended, byParent("x")),
  ];
  expect(answers.map(({ status }) => status)).toEqual([
    "unknown_question",
    "unknown_question",
    "unknown_question",
    "unknown",
    "ended",
  ]);
  expect(await rig.everything()).toEqual(before);
});

test("finish queues an agent that waits, and its questions are open no more", async () => {
  const rig = verbRig();
  const { agent } = await rig.waiting();
  expect(await rig.store.finish(agent)).toMatchObject({ status: "finishing", run: 1, wake: 2 });
  expect(await rig.raw(agent)).toMatchObject({ status: "queued", wake: "2", finish: "1" });
  expect(await rig.store.answer(agent, byParent("late"))).toMatchObject({ status: "unknown_question" });
  await rig.claim(agent);
  expect(await rig.store.finish(agent)).toMatchObject({ status: "finishing", wake: undefined });
});

test("destroy ends an agent that waits, with what its run came to", async () => {
  const rig = verbRig();
  const { agent } = await rig.waiting();
  expect(await rig.store.settle(agent, DESTROY)).toMatchObject({ status: "settled", agent_status: "ended" });
  expect((await entriesOf(rig)).at(-1)).toMatchObject({
    kind: "ended",
    reply_id: `${agent.uid}.1`,
    turns: 1,
  });
});

test.for(["{", "5", "[5]", '[{"question_id":"1/a","text":"a?"},5]'])(
  "where the questions read %s none is open: an answer is told so, by whomever",
  async (text) => {
    const rig = verbRig({ timing: { checkMs: 60_000 } });
    const { agent } = await rig.waiting(["a", "b"], 1);
    await rig.redis.hset(rig.keys.agent(agent).record, "questions", text);
    await rig.redisReaches((await rig.redisNow()) + 3);
    const before = await rig.everything();
    for (const answer of [byParent("mine"), bySweeper("default")])
      expect(await rig.store.answer(agent, answer)).toEqual({ status: "unknown_question" });
    expect(await rig.everything()).toEqual(before);
  },
);
