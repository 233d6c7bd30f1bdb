import { describe, expect, test } from "vitest";
import type { ModelRequest } from "../../../../src/worker/model/model.ts";
import {
  messageJson,
  NO_TOOL_CHOICE,
  outputConfig,
  requestBody,
  requestHead,
} from "../../../../src/worker/model/request.ts";
import { type Asked, ask, QUESTION } from "./scripted-provider.ts";

const tool = (name: string) => ({ name, description: "d", input_schema: { type: "object" } });
const cached = { type: "ephemeral" };
const user = (...texts: string[]) => ({
  role: "user" as const,
  content: texts.map((text) => ({ type: "text", text })),
});
const answer = { role: "assistant" as const, content: [{ type: "text", text: "a" }] };

function bodyOf(over: Partial<Asked> = {}) {
  const request: ModelRequest = ask(over);
  return JSON.parse(requestBody(request, request.stream));
}

test("without tools there is no tool choice, and without a system prompt no system block", () => {
  expect(Object.keys(bodyOf({ system: "" }))).toEqual([
    "model",
    "max_tokens",
    "cache_control",
    "messages",
    "stream",
  ]);
});

test("without a system prompt the last tool carries the shared mark", () => {
  const { tools } = bodyOf({ system: "", tools: [tool("a"), tool("b")] });
  expect(tools).toEqual([tool("a"), { ...tool("b"), cache_control: cached }]);
});

test("where the call before ended is a mark, and nothing else changes", () => {
  const messages = [user("one"), answer, user("two", "three"), answer, user("four")];
  const cachedLength = messages.slice(0, 3).map(messageJson).join().length;
  const marked = bodyOf({ messages, cachedLength }).messages;
  expect(marked[2].content).toEqual([
    { type: "text", text: "two" },
    { type: "text", text: "three", cache_control: cached },
  ]);
  expect(marked.toSpliced(2, 1)).toEqual(messages.toSpliced(2, 1));
});

test("a mark where no message ends is left out", () => {
  const messages = [user("one"), answer, user("two")];
  for (const cachedLength of [0, 1, 2, 20, 10_000])
    expect(bodyOf({ messages, cachedLength }).messages).toEqual(messages);
});

test("what a call sent is, but for the mark, the beginning of what the next one sends", () => {
  const messages = [user("one"), answer, user("two")];
  const first = requestBody(ask({ messages: messages.slice(0, 1) }), false);
  const second = requestBody(ask({ messages }), false);
  expect(second.startsWith(first.slice(0, -"]}".length))).toBe(true);
});

test("members of one call stand beside those of the run; only a streamed one asks for a stream", () => {
  const body = bodyOf({ tools: [tool("a")], extra: NO_TOOL_CHOICE, stream: false });
  expect(body).toEqual({
    model: "claude-test",
    max_tokens: 100,
    tools: [tool("a")],
    system: [{ type: "text", text: "You are a test.", cache_control: cached }],
    cache_control: cached,
    tool_choice: { type: "none" },
    messages: [QUESTION],
  });
  expect(bodyOf({ stream: true }).stream).toBe(true);
});

test("a text cut within a character is sent with a mark in its place: the API refuses the whole of a body for one", () => {
  const cut = "half \ud83d";
  expect(requestHead({ maxTokens: 1, system: cut, tools: [] })).toContain("half \ufffd");
  expect(messageJson(user(cut))).toBe(messageJson(user("half \ufffd")));
});

test("agents of one kind share their head; another tool, text or bound is another head", () => {
  const schema = { type: "object" };
  const tool = (description: string, input_schema = schema) => ({
    name: "look_up",
    description,
    input_schema,
  });
  const parts = { maxTokens: 10, system: "You look things up.", tools: [tool("Looks up.")] };
  const head = requestHead(parts);
  expect(requestHead({ ...parts, tools: [tool("Looks up.")] })).toBe(head);
  const others = [
    { ...parts, maxTokens: 11 },
    { ...parts, system: "You look things up!" },
    { ...parts, tools: [] },
    { ...parts, tools: [tool("Looks it up.")] },
    { ...parts, tools: [tool("Looks up.", { type: "object", required: ["q"] } as typeof schema)] },
  ];
  const besideHead = (other: typeof parts) => {
    requestHead(parts);
    return requestHead(other);
  };
  expect(new Set([head, ...others.map(besideHead)]).size).toBe(6);
  expect(requestHead(parts)).toBe(head);
});

test("the newest 32 heads are kept, and an older one is made anew: a process with many kinds of agents does not grow", () => {
  let spelled = 0;
  const tool = {
    name: "look_up",
    description: "Looks up.",
    get input_schema() {
      return schema;
    },
  };
  const schema = {
    get type() {
      spelled += 1;
      return "object";
    },
  };
  const headOf = (kind: number) => requestHead({ maxTokens: 10, system: `Kind ${kind}.`, tools: [tool] });
  for (let kind = 0; kind < 32; kind += 1) headOf(kind);
  headOf(0);
  expect(spelled).toBe(32);
  headOf(32);
  headOf(0);
  expect(spelled).toBe(34);
});

describe("output_config", () => {
  const pace = { effort: "low", task_budget: 50_000 } as const;
  test("names effort, task budget and format, the budget with what a summary has used of it", () => {
    expect(outputConfig(pace, 0, '"format":{}')).toEqual({
      member: '"output_config":{"effort":"low","task_budget":{"type":"tokens","total":50000},"format":{}}',
      beta: "task-budgets-2026-03-13",
    });
    expect(outputConfig(pace, 20_000, "").member).toContain('"total":50000,"remaining":30000}');
    expect(outputConfig(pace, 60_000, "").member).toContain('"remaining":0}');
  });

  test("is left out where there is nothing to say", () => {
    expect(outputConfig({}, 5, "")).toEqual({ member: "" });
  });
});
