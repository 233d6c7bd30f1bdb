/** What an answer of the offline model costs, where it is cut, and what of its input was cached. */
import { expect, test } from "vitest";
import { type AnswerPlan, compose } from "../../../src/offline/answer.ts";
import { createPromptCache, fingerprint } from "../../../src/offline/cache.ts";
import { readConversation } from "../../../src/offline/conversation.ts";
import { MessagesRequest } from "../../../src/offline/wire.ts";

const input = { input_tokens: 5, cache_read_input_tokens: 1, cache_creation_input_tokens: 2 };
const request = (more: Record<string, unknown> = {}) =>
  MessagesRequest.parse({
    model: "m",
    max_tokens: 100,
    messages: [{ role: "user", content: "hi" }],
    ...more,
  });

function answered(plan: Partial<AnswerPlan>, more: Record<string, unknown> = {}) {
  const asked = request(more);
  return compose({ kind: "answer", content: [], bounded: true, ...plan }, asked, fingerprint(asked), input);
}

const call = (path: string) => ({ type: "tool_use" as const, name: "read", input: { path } });
const says = (text: string) => ({ type: "text" as const, text });

test("a call costs its name and its input", () => {
  const tokens = (path: string) => answered({ content: [call(path)] }).usage.output_tokens;
  expect(tokens("a".repeat(81)) - tokens("a")).toBe(20);
});

test("max_tokens bounds the answer as a whole, and not each of its blocks", () => {
  const cut = answered({ content: ["a", "b", "c"].map(call) }, { max_tokens: 11 });
  expect(cut).toMatchObject({ stop_reason: "max_tokens", content: [{ input: { path: "a" } }, {}] });
  expect(cut.content).toHaveLength(2);
});

test("a cut leaves no text block that the API would refuse in the next request", () => {
  expect(answered({ content: [says(" \n .")] }, { stop_sequences: ["."] }).content).toEqual([]);
  expect(answered({ content: [says(`${" ".repeat(8)}words`)] }, { max_tokens: 2 }).content).toEqual([]);
});

test("a scripted stop at a sequence names the first sequence of the request", () => {
  const more = { stop_sequences: ["END", "FIN"] };
  expect(answered({ stopReason: "stop_sequence" }, more).stop_sequence).toBe("END");
  expect(answered({ stopReason: "stop_sequence" }).stop_sequence).toBeNull();
  expect(answered({ stopReason: "refusal" }, more).stop_sequence).toBeNull();
});

test("what is written to the cache stands in both places of the usage; a count that a script leaves open is estimated", () => {
  const { usage } = answered({ content: [says("12345")], usage: { output_tokens: undefined } });
  expect(usage).toMatchObject({ cache_creation_input_tokens: 2, output_tokens: 2 });
  expect(usage.cache_creation).toEqual({ ephemeral_5m_input_tokens: 2, ephemeral_1h_input_tokens: 0 });
});

const marked = { cache_control: { type: "ephemeral" } };

test("marked tools are cached by themselves, and the blocks of a message count one by one", () => {
  const tools = [{ name: "glob", input_schema: { type: "object" }, ...marked }];
  const content = ["a", "b", "c"].map(says);
  const { prefixes } = fingerprint(request({ tools, system: "s", messages: [{ role: "user", content }] }));
  expect(prefixes.map(({ breakpoint, blocks }) => [breakpoint, blocks])).toEqual([
    [true, 1],
    [false, 2],
    [false, 5],
  ]);
});

test("a prefix before an early breakpoint is read, too, however far behind the last one stands", () => {
  const cache = createPromptCache();
  const first = { hash: "a", tokens: 10, blocks: 1, breakpoint: true };
  cache.charge({ prefixes: [first], inputTokens: 10 });
  const prefixes = [
    { ...first, breakpoint: false },
    { hash: "b", tokens: 20, blocks: 15, breakpoint: true },
    { hash: "c", tokens: 50, blocks: 90, breakpoint: true },
  ];
  expect(cache.charge({ prefixes, inputTokens: 50 }).cache_read_input_tokens).toBe(10);
});

test("a prefix that nobody uses is cached for five minutes", () => {
  let nowMs = 0;
  const cache = createPromptCache({ now: () => nowMs });
  const asked = { prefixes: [{ hash: "a", tokens: 10, blocks: 1, breakpoint: true }], inputTokens: 10 };
  cache.charge(asked);
  nowMs = 299_999;
  expect(cache.charge(asked).cache_read_input_tokens).toBe(10);
  nowMs += 300_000;
  expect(cache.charge(asked).cache_read_input_tokens).toBe(0);
});

test("of several results the newest is the last one, with all its texts; a system prompt of blocks is read line by line", () => {
  const ids = ["a", "b"];
  const content = (id: string) => [says(`${id} 1`), says(`${id} 2`)];
  const asked = request({
    system: [says("Be brief."), says("Open directories: /srv/repo")],
    messages: [
      { role: "user", content: "go" },
      { role: "assistant", content: ids.map((id) => ({ ...call(id), id })) },
      {
        role: "user",
        content: ids.map((id) => ({ type: "tool_result", tool_use_id: id, content: content(id) })),
      },
    ],
  });
  const read = readConversation(asked, () => false);
  expect(read.lastToolResult).toBe("b 1\nb 2");
  expect(read.openDirectories).toEqual(["/srv/repo"]);
});
