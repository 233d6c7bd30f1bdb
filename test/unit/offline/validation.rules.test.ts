/** Rules of the Messages API that a client would otherwise meet at the provider first. */
import { expect, test } from "vitest";
import { checkCountTokens, checkMessages } from "../../../src/offline/validation.ts";

const tool = { name: "glob", input_schema: { type: "object" } };
const marked = { cache_control: { type: "ephemeral" } };
const text = (words: string, more: Record<string, unknown> = {}) => ({ type: "text", text: words, ...more });
const user = (content: unknown) => ({ role: "user", content });
const assistant = (content: unknown) => ({ role: "assistant", content });
const result = (more: Record<string, unknown> = {}) => ({
  type: "tool_result",
  tool_use_id: "a",
  content: "x",
  ...more,
});
const calling = assistant([{ type: "tool_use", id: "a", name: "glob", input: {} }]);

const body = (change: Record<string, unknown>) =>
  JSON.stringify({ model: "m", max_tokens: 10, tools: [tool], messages: [user("hi")], ...change });

test.each([
  [
    "a tool forced by its name where there are none",
    { tools: [], tool_choice: { type: "tool", name: "glob" } },
  ],
  ["a choice with an odd field", { tool_choice: { type: "none", name: "glob" } }],
  ["a temperature above 1", { temperature: 1.5 }],
  ["a blank stop sequence", { stop_sequences: ["END", " \n"] }],
  ["a blank text in a result", { messages: [user("hi"), calling, user([result({ content: [text(" ")] })])] }],
  ["a result whose id has odd characters", { messages: [user([result({ tool_use_id: "a b" })])] }],
  ["an unknown kind of cache marker", { cache_control: { type: "forever" } }],
  ["a blank block of the system prompt", { system: [text(" \n")] }],
  ["a model without a name", { model: "" }],
  ["a tool whose input is no object", { tools: [{ ...tool, input_schema: { type: "string" } }] }],
  ["an empty last message of the user", { messages: [user("hi"), assistant("yes"), user([])] }],
])("%s is refused", (_, change) => {
  expect(checkMessages(body(change))).toMatchObject({ status: "invalid" });
});

test.each([
  ["an empty last message of the assistant", { messages: [user("hi"), assistant([])] }],
  [
    "a tool of the provider without a schema",
    { tools: [{ name: "web_search", type: "web_search_20250305" }] },
  ],
  ["a name of 128 characters", { tools: [{ ...tool, name: "a".repeat(128) }] }],
  [
    "a cache marker that is null",
    { tools: [1, 2, 3, 4, 5].map((n) => ({ ...tool, name: `t${n}`, cache_control: null })) },
  ],
  [
    "a message of the system between a call and its result",
    { messages: [user("hi"), calling, { role: "system", content: "Be brief." }, user([result()])] },
  ],
])("%s is accepted", (_, change) => {
  expect(checkMessages(body(change))).toMatchObject({ status: "valid" });
});

test("cache markers are counted wherever they stand: on the request, its system prompt, its tools and its messages", () => {
  const four = {
    ...marked,
    system: [text("s", marked)],
    tools: [{ ...tool, ...marked }],
    messages: [user([text("a", marked), text("b")])],
  };
  const five = { ...four, messages: [user([text("a", marked), text("b", marked)])] };
  expect(checkMessages(body(four))).toMatchObject({ status: "valid" });
  expect(checkMessages(body(five))).toMatchObject({ problem: expect.stringContaining("Found 5.") });
});

test("a request that only counts tokens has no max_tokens", () => {
  const counted = { model: "m", messages: [user("hi")] };
  expect(checkCountTokens(JSON.stringify(counted))).toMatchObject({ status: "valid" });
  expect(checkCountTokens(JSON.stringify({ ...counted, max_tokens: 5 }))).toEqual({
    status: "invalid",
    problem: "max_tokens: Extra inputs are not permitted",
  });
});
