/** Guarantee: a question waits for its answer without a worker, gets exactly one, and outlives everybody who stops. */
import { expect, test } from "vitest";
import type { Question } from "../../../src/shared/protocol/reply.ts";
import { createReplyStream } from "../../../src/shared/redis/replies.ts";
import { heldModel } from "../../helpers/held-model.ts";
import { latch } from "../../helpers/latch.ts";
import { refusal, testClient, testParent } from "../../helpers/parents.ts";
import { FSYNC_NEVER, startPrivateRedis } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { type Agent, LONG_TIMING, openStage, type Stage } from "../../stage/stage.ts";

const HOUR_MS = 3_600_000;
/** Running time is measured on another clock than Redis' own. */
const CLOCKS_MS = 20;
const ask = (question: string, default_answer?: string) => ({
  type: "tool_use" as const,
  name: "ask_parent",
  input: { question, ...(default_answer !== undefined && { default_answer }) },
});
const say = (text: string) => ({ content: [{ type: "text" as const, text }] });
/** Asks, then repeats what it was told. */
const asking = (...questions: { type: "tool_use"; name: string; input: Record<string, string> }[]) => ({
  turns: [{ content: questions }, say("I was told: {{last_tool_result}}")],
  hand_back: say("So far: {{last_tool_result}}"),
});

function parentOf({ prefix }: Stage, { parentId }: Agent, redisUrl?: string) {
  const client = testClient({ prefix, ...(redisUrl && { redisUrl }) });
  return testParent(client, { parentId, model: "offline-1" });
}

/** The questions in the channel, oldest first, as soon as there are `n`. */
async function questionsOf({ redis, keys, store }: Stage, agent: Agent, n = 1): Promise<Question[]> {
  const stream = createReplyStream(redis, keys, store.timing);
  return until(async () => {
    const items = await stream.read(agent, "0", 100);
    const found = items.flatMap(({ uid, entry }) =>
      uid === agent.uid && entry.kind === "question" ? [entry] : [],
    );
    return found.length >= n && found;
  });
}

const waiting = (installation: Stage, agent: Agent) =>
  installation.recordWhere(agent, ({ status }) => status === "waiting");

/** What the log holds as results, by question. */
async function resultsOf({ store }: Stage, agent: Agent): Promise<Record<string, string>> {
  const { log } = (await store.load(agent)) ?? { log: new Map<string, string>() };
  const results = [...log].filter(([key]) => key.endsWith("/result"));
  return Object.fromEntries(results.map(([key, json]) => [key, JSON.parse(json).content]));
}

test("an agent that asks holds no slot, buys nothing and goes on with the answer", async () => {
  const installation = await openStage({
    scenario: [
      { match: { user: "paint" }, ...asking(ask("Which colour?", "white")) },
      { turns: [say("done")] },
    ],
  });
  const worker = await installation.startWorker({ concurrency: 1 });
  const agent = await installation.task("paint the door", { answer_ms: HOUR_MS });
  const [question] = await questionsOf(installation, agent);
  expect(question).toMatchObject({
    kind: "question",
    agent_id: agent.agentId,
    run: 1,
    agent_status: "waiting",
    text: "Which colour?",
    default_answer: "white",
  });
  const { deadline, running_ms, created_at, epoch } = await waiting(installation, agent);
  expect(question?.answer_by).toBe(new Date(deadline).toISOString());
  expect(deadline - Date.parse(question?.created_at ?? "")).toBe(HOUR_MS);
  await until(() => worker.active().length === 0);

  // The only slot is free, and nobody takes the waiting agent however often it is woken.
  const { tenant, parentId: parent_id, uid, agentId: agent_id } = agent;
  await installation.wakes.add({ tenant, parent_id, uid, agent_id, wake: 99 });
  const other = await installation.task("anything");
  expect(await installation.reply(other)).toMatchObject({ status: "succeeded", summary: "done" });
  expect(await installation.record(agent)).toMatchObject({ status: "waiting", epoch, running_ms });

  const parent = parentOf(installation, agent);
  const [seconds, micros] = await installation.redis.time();
  const waitedMs = Number(seconds) * 1_000 + Number(micros) / 1_000 - Date.parse(question?.created_at ?? "");
  expect(await parent.get(agent.agentId)).toMatchObject({
    status: "waiting",
    questions: [{ text: "Which colour?", answer_by: question?.answer_by }],
    progress: { turns: 1, tools_called: { ask_parent: 1 } },
  });
  expect(await parent.answer(agent.agentId, "green")).toEqual({
    status: "answered",
    agent_id: agent.agentId,
    question_id: question?.question_id,
    agent_status: "queued",
  });
  const reply = await installation.reply(agent);
  expect(reply).toMatchObject({ status: "succeeded", summary: "I was told: green", turns: 2 });
  expect(reply.tools_called).toEqual({ ask_parent: 1 });
  const aliveMs = Date.parse(reply.created_at) - created_at;
  expect(reply.duration_ms).toBeLessThanOrEqual(aliveMs - waitedMs + CLOCKS_MS);
  expect(installation.offline.ledger.filter(({ status }) => status === "served")).toHaveLength(3);
});

test("the default holds at the deadline, not before: the sub-agent's own, or a word of the runtime", async () => {
  const installation = await openStage({
    timing: LONG_TIMING,
    scenario: [
      { match: { user: "own" }, ...asking(ask("Which colour?", "white")) },
      { match: { user: "none" }, ...asking(ask("Which colour?")) },
    ],
  });
  await installation.startWorker();
  const answerMs = 700;
  const own = await installation.task("own", { answer_ms: answerMs });
  const none = await installation.task("none", { answer_ms: answerMs });
  const replies = await Promise.all([installation.reply(own), installation.reply(none)]);
  expect(replies.map(({ summary }) => summary)).toEqual([
    "I was told: No answer came in time, so your default holds: white",
    expect.stringMatching(/^I was told: No answer came in time\. Go on with your best judgement/),
  ]);
  for (const [i, agent] of [own, none].entries()) {
    const [asked] = await questionsOf(installation, agent);
    const waitedMs = Date.parse(replies[i]?.created_at ?? "") - Date.parse(asked?.created_at ?? "");
    expect(waitedMs).toBeGreaterThanOrEqual(answerMs);
    const aliveMs = Date.parse(replies[i]?.created_at ?? "") - (await installation.record(agent)).created_at;
    expect(replies[i]?.duration_ms).toBeLessThanOrEqual(aliveMs - answerMs + CLOCKS_MS);
  }
});

test("questions of one turn are asked together, behind its other tools, and the last answer wakes", async () => {
  const glob = { type: "tool_use" as const, name: "glob", input: { pattern: "*" } };
  const invalid = { type: "tool_use" as const, name: "ask_parent", input: { question: " " } };
  const installation = await openStage({
    scenario: asking(ask("First?"), glob, invalid, ask("Second?")),
  });
  await installation.startWorker();
  const agent = await installation.task("work", { answer_ms: HOUR_MS });
  const [first, second] = await questionsOf(installation, agent, 2);
  expect([first?.text, second?.text]).toEqual(["First?", "Second?"]);
  const before = Object.values(await resultsOf(installation, agent));
  expect(before).toHaveLength(2);
  expect(before.join()).toMatch(/Invalid input for ask_parent: field `question`: the question is empty/);

  const parent = parentOf(installation, agent);
  const answer = (text: string, question?: Question) =>
    parent.answer(agent.agentId, text, { question_id: question?.question_id ?? "" });
  expect(await answer("two", second)).toMatchObject({ agent_status: "waiting" });
  expect((await parent.get(agent.agentId)).questions).toMatchObject([{ text: "First?" }]);
  expect(await installation.record(agent)).toMatchObject({ status: "waiting", wake: 1 });
  expect(await parent.answer(agent.agentId, "one")).toMatchObject({ question_id: first?.question_id });
  expect(await installation.reply(agent)).toMatchObject({ summary: "I was told: two", turns: 2 });
});

test("an answer is given once: again is no mistake, another one comes too late", async () => {
  const installation = await openStage({
    scenario: { turns: [{ content: [ask("Which?"), ask("And then?")] }, say("ok")] },
  });
  const answered = latch();
  const model = heldModel(installation, ({ messages }) =>
    JSON.parse(`[${messages}]`).length > 1 ? answered.opened : undefined,
  );
  const agent = await installation.task("work", { answer_ms: HOUR_MS });
  const parent = parentOf(installation, agent);
  await expect(parent.answer(agent.agentId, "x")).rejects.toMatchObject(refusal("unknown_question"));
  await installation.startWorker({ model });
  const [first, second] = await questionsOf(installation, agent, 2);
  const questionId = first?.question_id ?? "";
  const none = { question_id: questionId.replace(/\/.*/, "/none") };
  await expect(parent.answer(agent.agentId, "x", none)).rejects.toMatchObject(refusal("unknown_question"));
  await expect(parent.answer(agent.agentId, " ")).rejects.toMatchObject(refusal("invalid_input"));
  await parent.answer(agent.agentId, "this", { question_id: questionId });
  expect(await parent.answer(agent.agentId, "this", { question_id: questionId })).toMatchObject({
    agent_status: "waiting",
  });
  await expect(parent.answer(agent.agentId, "that", { question_id: questionId })).rejects.toMatchObject(
    refusal("already_answered", /another answer/),
  );
  await parent.answer(agent.agentId, "later", { question_id: second?.question_id ?? "" });
  await installation.recordWhere(agent, ({ status }) => status === "running");
  expect(await parent.answer(agent.agentId, "this", { question_id: questionId })).toMatchObject({
    agent_status: "running",
  });
  answered.open();
  await installation.reply(agent);
  await expect(parent.answer(agent.agentId, "this")).rejects.toMatchObject(refusal("agent_ended"));
});

test("finish lets a waiting agent report without its answer", async () => {
  const installation = await openStage({ scenario: asking(ask("Which?")) });
  await installation.startWorker();
  const agent = await installation.task("work", { answer_ms: HOUR_MS });
  const [question] = await questionsOf(installation, agent);
  const parent = parentOf(installation, agent);
  expect(await parent.finish(agent.agentId)).toMatchObject({ status: "finishing", run: 1 });
  await expect(
    parent.answer(agent.agentId, "late", { question_id: question?.question_id ?? "" }),
  ).rejects.toMatchObject({ code: expect.stringMatching(/unknown_question|already_answered|agent_ended/) });
  expect(await installation.reply(agent)).toMatchObject({
    status: "partial",
    stop_reason: "finished_by_parent",
    summary: "So far: Your parent asked you to report before it answered.",
  });
});

test("a finish that comes before the question is asked leaves nobody waiting", async () => {
  const installation = await openStage({
    scenario: {
      turns: [{ content: [ask("Which?")] }],
      hand_back: say("So far: {{last_tool_result}}"),
    },
  });
  const [asked, finished] = [latch(), latch()];
  const model = heldModel(installation, () => {
    asked.open();
    return finished.opened;
  });
  await installation.startWorker({ model });
  const agent = await installation.task("work", { answer_ms: HOUR_MS });
  await asked.opened;
  await parentOf(installation, agent).finish(agent.agentId);
  finished.open();
  expect(await installation.reply(agent)).toMatchObject({
    stop_reason: "finished_by_parent",
    summary: "So far: Your parent asked you to report before it answered.",
  });
  expect(await installation.entries(agent)).toHaveLength(1);
});

test("destroy ends a waiting agent at once", async () => {
  const installation = await openStage({ scenario: asking(ask("Which?")) });
  await installation.startWorker();
  const agent = await installation.task("work", { answer_ms: HOUR_MS });
  await waiting(installation, agent);
  expect(await parentOf(installation, agent).destroy(agent.agentId)).toMatchObject({ status: "destroyed" });
  expect(await installation.entries(agent)).toMatchObject([
    { kind: "ended", stop_reason: "destroyed", turns: 1, tools_called: { ask_parent: 1 } },
  ]);
  const seen = await parentOf(installation, agent).get(agent.agentId);
  expect(seen).toMatchObject({ status: "ended" });
  expect(seen).not.toHaveProperty("questions");
});

test("max_age ends a waiting agent whatever its question may wait", async () => {
  const maxAgeMs = HOUR_MS / 2;
  const installation = await openStage({
    scenario: asking(ask("Which?")),
    timing: { ...LONG_TIMING, maxAgeMs },
  });
  await installation.startWorker();
  const agent = await installation.task("work", { answer_ms: HOUR_MS });
  const { deadline } = await waiting(installation, agent);
  expect(deadline - Date.now()).toBeLessThanOrEqual(maxAgeMs);
  const { redis, keys, deadlines } = installation;
  await redis.hset(keys.agent(agent).record, { unanswered_since: 1, deadline: 1 });
  await deadlines.hint(agent, 0);
  expect(await installation.reply(agent)).toMatchObject({
    kind: "ended",
    status: "failed",
    stop_reason: "max_age",
  });
});

test("a message to a waiting agent does not wake it and is read with the answer", async () => {
  const installation = await openStage({
    scenario: asking(ask("Which?")),
  });
  await installation.startWorker();
  const agent = await installation.task("work", { answer_ms: HOUR_MS, keep_alive: true });
  await waiting(installation, agent);
  expect(await installation.send(agent, "hurry")).toBe("delivered");
  expect(await installation.record(agent)).toMatchObject({ status: "waiting", wake: 1 });
  await parentOf(installation, agent).answer(agent.agentId, "this");
  expect(await installation.reply(agent)).toMatchObject({ summary: "I was told: this", turns: 2, run: 1 });
  const { log } = (await installation.store.load(agent)) ?? {};
  expect(JSON.parse(log?.get("2") ?? "{}")).toMatchObject({ run: 1, messages: [{ text: "hurry" }] });
});

test("an agent without answer_ms, or whose allowlist does not name it, cannot ask", async () => {
  const installation = await openStage({ scenario: asking(ask("Which?")) });
  await installation.startWorker();
  const old = await installation.task("work");
  const strict = await installation.task("work", { answer_ms: HOUR_MS, tools: ["glob"] });
  for (const agent of [old, strict]) {
    const reply = await installation.reply(agent);
    expect(reply.summary).toMatch(/There is no tool named "ask_parent"/);
  }
  const named = await installation.task("work", { answer_ms: HOUR_MS, tools: ["ask_parent"] });
  await waiting(installation, named);
});

test("a question outlives the worker that asked it", async () => {
  const installation = await openStage({ scenario: asking(ask("Which?")), timing: LONG_TIMING });
  const first = await installation.spawnWorker();
  const agent = await installation.task("work", { answer_ms: HOUR_MS });
  await waiting(installation, agent);
  await first.kill();
  await parentOf(installation, agent).answer(agent.agentId, "this");
  await installation.startWorker();
  expect(await installation.reply(agent)).toMatchObject({ summary: "I was told: this", turns: 2 });
  expect(installation.offline.ledger.filter(({ status }) => status === "served")).toHaveLength(2);
});

test.for(["its parent's answer", "its default"] as const)(
  "a question outlives everybody, a killed Redis included, and gets %s",
  async (what) => {
    const server = await startPrivateRedis({ arguments: FSYNC_NEVER });
    const installation = await openStage({
      redis: server,
      scenario: asking(ask("Which?", "none")),
      timing: LONG_TIMING,
    });
    const worker = await installation.startWorker();
    const agent = await installation.task("work", { answer_ms: HOUR_MS });
    const [question] = await questionsOf(installation, agent);
    await worker.stop();
    await server.kill();
    await server.start();
    await until(() => installation.redis.status === "ready");
    expect(await installation.record(agent)).toMatchObject({ status: "waiting" });
    expect(await questionsOf(installation, agent)).toEqual([question]);
    if (what === "its parent's answer") {
      await parentOf(installation, agent, server.url).answer(agent.agentId, "this");
      await installation.startWorker();
      expect(await installation.reply(agent)).toMatchObject({ summary: "I was told: this", turns: 2 });
    } else {
      const { redis, keys, deadlines } = installation;
      await redis.hset(keys.agent(agent).record, { deadline: 1 });
      await deadlines.hint(agent, 0);
      await installation.startWorker();
      const { summary } = await installation.reply(agent);
      expect(summary).toBe("I was told: No answer came in time, so your default holds: none");
    }
    expect(installation.offline.ledger.filter(({ status }) => status === "served")).toHaveLength(2);
  },
);

test("an agent whose questions cannot be read goes on without answers at its deadline, and its parent gets what it has", async () => {
  const installation = await openStage({ scenario: asking(ask("Which colour?")) });
  await installation.startWorker();
  const agent = await installation.task("paint the door", { answer_ms: HOUR_MS });
  await waiting(installation, agent);
  const { redis, keys, deadlines } = installation;
  await redis.hset(keys.agent(agent).record, { questions: "{", deadline: 1 });
  await deadlines.hint(agent, 0);
  expect(await installation.reply(agent)).toMatchObject({ kind: "reply", status: "partial" });
});
