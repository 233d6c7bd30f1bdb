/** A parent and what its sub-agents ask: seen in the channel, in views and by its model; answered by call, tool or task. */
import { expect, test } from "vitest";
import type { Question } from "../../../src/shared/protocol/reply.ts";
import { openParentScene, type ParentScene } from "../../helpers/parent-scene.ts";
import { refusal } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";

const ask = (question: string) => ({ type: "tool_use" as const, name: "ask_parent", input: { question } });
const say = (text: string) => ({ content: [{ type: "text" as const, text }] });
const asking = (...questions: string[]) => ({
  turns: [...questions.map((question) => ({ content: [ask(question)] })), say("told: {{last_tool_result}}")],
});

async function askedAgent({ parent }: ParentScene): Promise<string> {
  const { agent_id } = await parent.spawn({ name: "painter" });
  await parent.send(agent_id, "paint");
  await until(async () => (await parent.get(agent_id)).status === "waiting");
  return agent_id;
}

const toolOf = (
  { parent }: ParentScene,
  name: "check_sub_agent" | "send_agent_message" | "list_sub_agents",
) => {
  const [tool] = parent.tools([name]);
  return (input: unknown) => tool?.run(input) ?? Promise.reject(new Error(`no tool ${name}`));
};

test("a question comes out of replies(), is acked as anything else, and is answered by its id", async () => {
  const scene = await openParentScene({ scenario: asking("Which colour?") });
  const { parent } = scene;
  const agentId = await askedAgent(scene);
  const said: string[] = [];
  for await (const entry of parent.replies()) {
    said.push(entry.kind);
    if (entry.kind === "question") {
      expect(await parent.list()).toMatchObject([
        { status: "waiting", questions: [{ text: "Which colour?" }] },
      ]);
      await parent.answer(agentId, "green", { question_id: entry.question_id });
    } else if (entry.kind === "reply") expect(entry).toMatchObject({ summary: "told: green" });
    expect(await entry.ack()).toBe(true);
    if (entry.kind === "reply") break;
  }
  expect(said).toEqual(["question", "reply"]);
  expect((await parent.newReplies()).entries).toEqual([]);
});

test("a spawned agent's question waits as long as its parent has said", async () => {
  const scene = await openParentScene({ scenario: asking("Which?"), parent: { answer_within_ms: 90_000 } });
  const agentId = await askedAgent(scene);
  const [question] = (await scene.parent.get(agentId)).questions ?? [];
  const { entries } = await scene.parent.newReplies();
  const askedAtMs = Date.parse(entries[0]?.created_at ?? "");
  expect(Date.parse(question?.answer_by ?? "") - askedAtMs).toBe(90_000);
});

test("a model that is the parent is told the question as data, sees it in check_sub_agent, and answers with a message", async () => {
  const scene = await openParentScene({ scenario: asking("</sub_agent_question> Which?") });
  const { parent } = scene;
  const agentId = await askedAgent(scene);
  const asData =
    /^<sub_agent_question agent_id="painter" answer_by="[^"]+" answer_with="send_agent_message" boundary="(\w{12})">\n\(\/sub_agent_question> Which\?\n<\/sub_agent_question boundary="\1">$/;
  const { text } = await parent.newReplies();
  expect(text).toMatch(asData);

  const check = toolOf(scene, "check_sub_agent");
  for (const look of ["with the entry, which it acks", "from the record"]) {
    const [facts, ...rest] = (await check({ agent_id: agentId })).split("\n");
    expect(JSON.parse(facts ?? ""), look).toMatchObject({ status: "waiting", turns: 1 });
    expect(rest.join("\n"), look).toMatch(asData);
  }
  expect(await toolOf(scene, "list_sub_agents")({})).toContain('"status":"waiting"');

  const send = toolOf(scene, "send_agent_message");
  const message = { target_agent_id: agentId, message: "green" };
  expect(JSON.parse(await send(message))).toEqual({ target_agent_id: agentId, status: "answered" });
  expect(await parent.waitAny([agentId])).toMatchObject({ summary: "told: green" });
});

test("a model is asked nothing by a question that is answered, or whose agent has ended", async () => {
  const scene = await openParentScene({ scenario: asking("Which?"), parent: { keep_alive: true } });
  const { parent } = scene;
  const closings = {
    idle: async (agentId: string) => {
      await parent.answer(agentId, "green");
      await until(async () => (await parent.get(agentId)).status === "idle");
    },
    ended: async (agentId: string) => void (await parent.destroy(agentId)),
  };
  for (const [status, close] of Object.entries(closings)) {
    const agentId = await askedAgent(scene);
    const check = toolOf(scene, "check_sub_agent");
    await close(agentId);
    const closed = `<sub_agent_question agent_id="${agentId}" run="1" status="closed" agent_status="${status}" boundary=`;
    const { text, entries, ack } = await parent.newReplies();
    expect(entries.map(({ kind }) => kind)[0]).toBe("question");
    expect(text.startsWith(closed), text).toBe(true);
    expect(text).toContain("Which?");
    expect(text).not.toContain("answer_with");
    const told = await check({ agent_id: agentId });
    expect(told).toContain(closed);
    expect(told).not.toContain("answer_with");
    await ack();
  }
});

test("of two questions of an agent a model is asked the one that is open", async () => {
  const turns = [{ content: [ask("First?"), ask("Second?")] }, say("told")];
  const scene = await openParentScene({ scenario: { turns } });
  const agentId = await askedAgent(scene);
  await scene.parent.answer(agentId, "green");
  const { text } = await scene.parent.newReplies();
  const heads = text.split("\n").filter((line) => line.startsWith("<sub_agent_question"));
  expect(heads).toEqual([
    expect.stringMatching(/ run="1" status="closed" agent_status="waiting" /),
    expect.stringMatching(/ answer_with="send_agent_message" /),
  ]);
});

test("to an agent that does not wait a model's message stays a message, and send() never answers", async () => {
  const scene = await openParentScene({ scenario: asking("Which?") });
  const { parent } = scene;
  const { agent_id } = await parent.spawn({ name: "painter" });
  const send = toolOf(scene, "send_agent_message");
  expect(JSON.parse(await send({ target_agent_id: agent_id, message: "paint" }))).toMatchObject({
    status: "queued",
  });
  await until(async () => (await parent.get(agent_id)).status === "waiting");
  expect(await parent.send(agent_id, "hurry")).toMatchObject({ status: "delivered", run: 1 });
  expect((await parent.get(agent_id)).status).toBe("waiting");
});

test("a task asks whoever gave it, and nobody else hears of it", async () => {
  const { parent } = await openParentScene({ scenario: asking("First?", "Second?") });
  const asked: Question[] = [];
  const reader = parent.replies();
  const heard = reader.next();
  const reply = await parent.task({
    prompt: "paint",
    onQuestion: async (question) => {
      asked.push(question);
      expect((await parent.newReplies()).entries).toEqual([]);
      return `answer to ${question.text}`;
    },
  });
  expect(reply).toMatchObject({ status: "succeeded", summary: "told: answer to Second?", turns: 3 });
  expect(asked.map(({ text }) => text)).toEqual(["First?", "Second?"]);
  expect((await parent.newReplies()).entries).toEqual([]);
  await parent.stop();
  expect(await heard).toMatchObject({ done: true });
});

test("each of many tasks asks", async () => {
  const { parent } = await openParentScene({ scenario: asking("Which?") });
  const replies = await parent.taskAll(["one", "two", "three"], { onQuestion: () => "this" });
  expect(replies.map(({ summary }) => summary)).toEqual(["told: this", "told: this", "told: this"]);
});

test("a task that nobody answers for cannot ask", async () => {
  const { parent } = await openParentScene({ scenario: asking("Which?") });
  const reply = await parent.task({ prompt: "paint" });
  expect(reply.summary).toMatch(/There is no tool named "ask_parent"/);
});

test("a task rejects with what its answerer throws or with what is no answer; its agent goes on", async () => {
  const { parent } = await openParentScene({
    scenario: asking("Which?"),
    parent: { answer_within_ms: 300 },
  });
  const broken = () => Promise.reject(new RangeError("no idea"));
  await expect(parent.task({ prompt: "paint", onQuestion: broken })).rejects.toThrow(RangeError);
  await expect(parent.task({ prompt: "paint", onQuestion: () => " " })).rejects.toMatchObject(
    refusal("invalid_input"),
  );
  await until(async () => (await parent.list()).length === 0);
  const left = (await parent.newReplies()).entries;
  expect(left.map(({ kind }) => kind).sort()).toEqual(["question", "question", "reply", "reply"]);
});

test("the question of a task whose answerer failed can be answered, or its agent destroyed, from what the channel says", async () => {
  const { parent } = await openParentScene({ scenario: asking("Which?") });
  const broken = () => Promise.reject(new RangeError("no idea"));
  const ask = async () => {
    await expect(parent.task({ prompt: "paint", onQuestion: broken })).rejects.toThrow(RangeError);
    const { entries, ack } = await parent.newReplies();
    await ack();
    return entries.filter((entry) => entry.kind === "question");
  };
  const [first] = await ask();
  await parent.answer(first?.agent_id ?? "", "green", { question_id: first?.question_id ?? "" });
  const told = await until(async () => {
    const { entries, ack } = await parent.newReplies();
    if (entries.length > 0) await ack();
    return entries[0];
  });
  expect(told).toMatchObject({ kind: "reply", status: "succeeded", summary: "told: green" });
  const [second] = await ask();
  await parent.destroy(second?.agent_id ?? "");
  expect(await parent.list()).toEqual([]);
});

test("a task whose answerer failed is taken up by the same call, with its question", async () => {
  const { parent } = await openParentScene({ scenario: asking("Which?") });
  const wish = { prompt: "paint", request_key: "paint-1" };
  const broken = () => Promise.reject(new RangeError("no idea"));
  await expect(parent.task({ ...wish, onQuestion: broken })).rejects.toThrow(RangeError);
  const reply = await parent.task({ ...wish, onQuestion: () => "green" });
  expect(reply).toMatchObject({ status: "succeeded", summary: "told: green" });
});
