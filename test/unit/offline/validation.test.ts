import { describe, expect, it } from "vitest";
import { checkCountTokens, checkMessages } from "../../../src/offline/validation.ts";

const tools = [{ name: "glob", input_schema: { type: "object" } }];
const user = (content: unknown) => ({ role: "user", content });
const assistant = (content: unknown) => ({ role: "assistant", content });
const calling = (...ids: string[]) =>
  assistant(ids.map((id) => ({ type: "tool_use", id, name: "glob", input: {} })));
const result = (id: string) => ({ type: "tool_result", tool_use_id: id, content: "x" });
const text = (words: string) => ({ type: "text", text: words });

function body(change: Record<string, unknown>): string {
  return JSON.stringify({ model: "m", max_tokens: 10, tools, messages: [user("hi")], ...change });
}

const talk = (...messages: unknown[]) => body({ messages: [user("hi"), ...messages] });

describe("checkMessages refuses", () => {
  it.each([
    ["no JSON", "{", /not valid JSON/],
    ["lone surrogates", '{"model":"\\ud83d"}', /lone surrogate/],
    ["a body that is no object", "[]", /object/],
    ["no messages field", body({ messages: undefined }), /^messages: Field required/],
    ["no messages", body({ messages: [] }), /^messages: at least one message/],
    [
      "an assistant's message first",
      body({ messages: [assistant("hi")] }),
      /first message must use the "user" role/,
    ],
    ["an unknown role", body({ messages: [{ role: "robot", content: "x" }] }), /^messages\.0\.role/],
    ["no model", body({ model: undefined }), /^model: Field required/],
    ["no max_tokens", body({ max_tokens: undefined }), /^max_tokens: Field required/],
    ["max_tokens 0", body({ max_tokens: 0 }), /^max_tokens: .*greater than or equal to 1/],
    ["a fraction of a token", body({ max_tokens: 1.5 }), /^max_tokens: .*integer/],
    ["an unknown field", body({ idempotency_key: "x" }), /^idempotency_key: Extra inputs are not permitted/],
    ["an empty message", body({ messages: [user("")] }), /^messages\.0: .*non-empty content/],
    ["a message without blocks", body({ messages: [user([])] }), /^messages\.0: .*non-empty content/],
    [
      "an empty text block",
      body({ messages: [user([text("")])] }),
      /^messages\.0\.content.*must be non-empty/,
    ],
    ["a blank text block", body({ messages: [user([text(" \n")])] }), /non-whitespace/],
    ["an empty system block", body({ system: [text("")] }), /^system.*/],
    ["a bad tool name", body({ tools: [{ ...tools[0], name: "a b" }] }), /^tools\.0\.name: .*pattern/],
    ["two tools of one name", body({ tools: [...tools, ...tools] }), /Tool names must be unique/],
    [
      "a tool without a schema",
      body({ tools: [{ name: "x" }] }),
      /^tools\.0\.custom\.input_schema: Field required/,
    ],
    ...["oneOf", "allOf", "anyOf"].map((keyword): [string, string, RegExp] => [
      `${keyword} at the top level of a tool's schema`,
      body({ tools: [{ name: "x", input_schema: { type: "object", [keyword]: [{}] } }] }),
      /^tools\.0\.custom\.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level/,
    ]),
    [
      "a property of a tool with an odd name",
      body({
        tools: [...tools, { name: "x", input_schema: { type: "object", properties: { "a[b]": {} } } }],
      }),
      /^tools\.1\.custom\.input_schema\.properties: Property keys should match pattern '\^\[a-zA-Z0-9_\.-\]\{1,64\}\$'/,
    ],
    [
      "a forced tool that is not offered",
      body({ tool_choice: { type: "tool", name: "x" } }),
      /not found in provided tools/,
    ],
    [
      "a forced tool without tools",
      body({ tools: [], tool_choice: { type: "any" } }),
      /only be specified while providing tools/,
    ],
    [
      "a call without its result",
      talk(calling("a", "b"), user([result("a")])),
      /ids were found without.*: b\./,
    ],
    ["a call at the very end", talk(calling("a")), /^messages\.1: .*ids were found without/],
    ["a call answered by words", talk(calling("a"), user("go on")), /ids were found without/],
    ["a result without its call", talk(assistant("x"), user([result("zz")])), /unexpected `tool_use_id`.*zz/],
    ["a result in the first message", body({ messages: [user([result("a")])] }), /unexpected `tool_use_id`/],
    ["two results for one call", talk(calling("a"), user([result("a"), result("a")])), /single result/],
    ["words before results", talk(calling("a"), user([text("see"), result("a")])), /must come first/],
    [
      "one call id twice in a message",
      talk(calling("a", "a"), user([result("a")])),
      /must be unique, found a twice/,
    ],
    [
      "one call id in two messages",
      talk(calling("a"), user([result("a")]), calling("a"), user([result("a")])),
      /must be unique/,
    ],
    [
      "a call by the user",
      body({ messages: [user([{ type: "tool_use", id: "a", name: "glob", input: {} }])] }),
      /only be in `assistant`/,
    ],
    ["a result by the assistant", talk(assistant([result("a")])), /only be in `user`/],
    [
      "a call whose input is no object",
      talk(assistant([{ type: "tool_use", id: "a", name: "glob", input: "x" }])),
      /input: .*dictionary/,
    ],
    [
      "a call id with odd characters",
      talk(assistant([{ type: "tool_use", id: "a b", name: "glob", input: {} }])),
      /\.id: .*pattern/,
    ],
    [
      "calls without offered tools",
      JSON.stringify({ ...JSON.parse(talk(calling("a"), user([result("a")]))), tools: [] }),
      /must define tools/,
    ],
    [
      "five cache breakpoints",
      body({
        messages: [
          user([1, 2, 3, 4, 5].map((n) => ({ ...text(`${n}`), cache_control: { type: "ephemeral" } }))),
        ],
      }),
      /maximum of 4 blocks/,
    ],
  ])("%s", (_, request, sentence) => {
    expect(checkMessages(request)).toEqual({ status: "invalid", problem: expect.stringMatching(sentence) });
  });
});

describe("checkMessages accepts", () => {
  it.each([
    [
      "several messages of one role in a row",
      talk(user("again"), assistant("a"), assistant("b"), user("go on")),
    ],
    [
      "results in two user messages in a row",
      talk(calling("a", "b"), user([result("a")]), user([result("b"), text("and?")])),
    ],
    ["an assistant's message at the end", talk(assistant("The answer is"))],
    [
      "blocks it does not know",
      talk(assistant([{ type: "thinking", thinking: "", signature: "s" }, text("x")]), user("y")),
    ],
    ["a result without content", talk(calling("a"), user([{ type: "tool_result", tool_use_id: "a" }]))],
    [
      "escaped surrogate pairs and escaped backslashes",
      body({ messages: [user("😀")] }).replace("😀", "\\ud83d\\ude00 \\\\ud83d"),
    ],
    ["tools that are offered and forbidden at once", body({ tool_choice: { type: "none" } })],
  ])("%s", (_, request) => {
    expect(checkMessages(request)).toMatchObject({ status: "valid" });
  });

  it("turns a plain string into one text block", () => {
    const checked = checkMessages(body({}));
    expect(checked.status === "valid" && checked.request.messages[0]?.content).toEqual([text("hi")]);
  });
});

describe("checkCountTokens", () => {
  it("needs no max_tokens and keeps the other rules", () => {
    expect(checkCountTokens(JSON.stringify({ model: "m", messages: [user("hi")] })).status).toBe("valid");
    expect(checkCountTokens(JSON.stringify({ model: "m", messages: [] })).status).toBe("invalid");
  });
});
