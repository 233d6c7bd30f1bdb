import { describe, expect, it } from "vitest";
import { readConversation } from "../../../src/offline/conversation.ts";
import { MessagesRequest } from "../../../src/offline/wire.ts";

const read = (change: Record<string, unknown>) =>
  readConversation(
    MessagesRequest.parse({
      model: "m",
      max_tokens: 9,
      messages: [{ role: "user", content: "first" }],
      ...change,
    }),
    (text) => text.startsWith("known"),
  );
const call = {
  role: "assistant",
  content: [{ type: "tool_use", id: "a", name: "glob", input: { pattern: "*" } }],
};
const results = (...words: string[]) => ({
  role: "user",
  content: [
    { type: "tool_result", tool_use_id: "a", content: [{ type: "text", text: "x.ts" }] },
    ...words.map((text) => ({ type: "text", text })),
  ],
});
const first = { role: "user", content: "first" };

describe("readConversation", () => {
  it("has only what no answer came to yet open, with what was looked up for it", () => {
    const looking = read({ messages: [first, call, results()] });
    expect(looking.requests).toEqual(["first"]);
    expect(looking.steps).toEqual([{ name: "glob", input: { pattern: "*" }, output: "x.ts", failed: false }]);
    const answered = [first, call, results(), { role: "assistant", content: "done" }];
    const later = read({ messages: [...answered, { role: "user", content: "second" }] });
    expect([later.requests, later.steps, later.lastToolResult]).toEqual([["second"], [], "x.ts"]);
  });

  it("takes words beside results as a request only when a rule knows them", () => {
    expect(read({ messages: [first, call, results("by the way")] }).requests).toEqual(["first"]);
    expect(read({ messages: [first, call, results("known request")] }).requests).toEqual([
      "first",
      "known request",
    ]);
  });

  it("keeps messages that arrived together apart, so that each is answered", () => {
    expect(read({ messages: [first, { role: "user", content: "and this" }] }).requests).toEqual([
      "first",
      "and this",
    ]);
  });

  it("offers no tools when they are forbidden, by choice or by words, and drops the order from the request", () => {
    const tools = [{ name: "glob", input_schema: { type: "object" } }];
    expect([...read({ tools }).offered]).toEqual(["glob"]);
    const none = read({
      tools,
      tool_choice: { type: "none" },
      messages: [first, call, results("Hand back what you have. Do not call any more tools.")],
    });
    expect([none.finalCall, none.offered.size, none.requests]).toEqual([true, 0, ["first"]]);
    const told = read({ tools, messages: [first, call, results("Do not call any more tools.")] });
    expect([told.finalCall, told.offered.size]).toEqual([true, 0]);
  });

  it("finds the open directories that the system prompt names", () => {
    const system = "Rules.\nOpen directories: /srv/repo (read-only), /data (read-write)\nMore.";
    expect(read({ system }).openDirectories).toEqual(["/srv/repo", "/data"]);
    expect(read({ system: "No such line." }).openDirectories).toEqual([]);
  });
});
