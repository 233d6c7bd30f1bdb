import { describe, expect, test } from "vitest";
import { AnswerDraft } from "../../../../../src/worker/model/anthropic/answer-draft.ts";

const MAX_TOKENS = 1_000;

function begun(message: object = {}): AnswerDraft {
  const draft = new AnswerDraft("asked-for", MAX_TOKENS);
  draft.begin({ content: [], ...message });
  return draft;
}

function finished(content: unknown[], stop_reason = "end_turn") {
  return begun({ content, stop_reason }).finish();
}

const call = (id: unknown, input: unknown = {}, name: unknown = "look") => ({
  type: "tool_use",
  id,
  name,
  input,
});
const zeros = (count: number) => Array.from({ length: count }, () => 0);
const nestedLists = (levels: number): unknown => JSON.parse("[".repeat(levels) + "]".repeat(levels));
const idsOf = (content: readonly { type: string; id?: unknown }[]) => content.map(({ id }) => id);

describe("a draft", () => {
  test("names the requested model when the answer names none", () => {
    expect(finished([]).model).toBe("asked-for");
  });

  test("keeps no more of its model's name and of its stop reason than a word", () => {
    const long = "x".repeat(100_000);
    const { model, stopReason } = begun({ model: long, stop_reason: long }).finish();
    expect([model, stopReason]).toEqual([`${"x".repeat(255)}…`, `${"x".repeat(255)}…`]);
    expect(begun({ model: "m-1", stop_reason: "end_turn" }).finish()).toMatchObject({ model: "m-1" });
  });

  test("keeps its model's name and its stop reason well formed", () => {
    const { model, stopReason } = begun({ model: "m-\ud83d", stop_reason: "end\udc00" }).finish();
    expect([model, stopReason]).toEqual(["m-\ufffd", "end\ufffd"]);
  });

  test("keeps what a provider says of a refusal as one plain line, and of no other end", () => {
    const saidOf = (stop_details: unknown, stop_reason = "refusal") =>
      begun({ stop_reason, stop_details }).finish().refusal;
    expect(saidOf({ type: "refusal", category: "cyber", explanation: "It asks for an exploit." })).toBe(
      "cyber: It asks for an exploit.",
    );
    expect(saidOf({ category: "bio", explanation: null })).toBe("bio");
    expect(saidOf({ category: null, explanation: "No." })).toBe("No.");
    for (const none of [null, undefined, "no", [], {}, { category: { a: 1 }, explanation: 7 }])
      expect(saidOf(none)).toBeUndefined();
    expect(saidOf({ category: "cyber" }, "end_turn")).toBeUndefined();
    expect(saidOf({ explanation: "a\u0000\u001b[31m\n\nb \ud83d" })).toBe("a [31m b \ufffd");
    expect(saidOf({ explanation: "the key sk-ant-0123456789 was sent" })).not.toContain("0123");
    expect(saidOf({ category: "c", explanation: "é ".repeat(100_000) })).toHaveLength(256);
  });

  test("takes the last word on each counter and ignores what is no count", () => {
    const draft = begun({
      usage: { input_tokens: 10, output_tokens: 1, cache_read_input_tokens: null, service_tier: "standard" },
    });
    draft.count({
      output_tokens: 50,
      input_tokens: null,
      cache_read_input_tokens: 7,
      cache_creation_input_tokens: -3,
    });
    draft.count({ output_tokens: Number.MAX_SAFE_INTEGER, cache_read_input_tokens: 1e20 });
    expect(draft.usage).toEqual({
      input_tokens: 10,
      output_tokens: 50,
      cache_read_input_tokens: 7,
      cache_creation_input_tokens: 0,
    });
  });

  test("believes a provider up to 200,000 tokens more than the call can have", () => {
    const [promptBytes, hidden] = [5_000, 200_000];
    const counted = (usage: object) => {
      const draft = new AnswerDraft("m", MAX_TOKENS, () => promptBytes);
      draft.begin({ stop_reason: "end_turn", usage: { input_tokens: 10, output_tokens: 50 } });
      draft.count(usage);
      const { input_tokens, output_tokens, cache_read_input_tokens } = draft.usage;
      return [input_tokens, output_tokens, cache_read_input_tokens];
    };
    const [most, mostOutput] = [promptBytes + hidden, MAX_TOKENS + hidden];
    expect(counted({ input_tokens: most, output_tokens: mostOutput })).toEqual([most, mostOutput, 0]);
    expect(counted({ input_tokens: 1, cache_read_input_tokens: most })).toEqual([10, 50, 0]);
    expect(counted({ input_tokens: most + 1, output_tokens: 60 })).toEqual([10, 60, 0]);
    expect(counted({ input_tokens: 20, output_tokens: mostOutput + 1 })).toEqual([20, 50, 0]);
  });

  test("orders blocks by their index, whatever order they came in", () => {
    const draft = begun({ stop_reason: "end_turn" });
    draft.open(2, { type: "text", text: "c" });
    draft.open(0, { type: "text", text: "a" });
    expect(draft.finish().contentJson).toBe('[{"type":"text","text":"a"},{"type":"text","text":"c"}]');
  });

  test("keeps texts of a lone surrogate well formed, in the blocks as in their JSON", () => {
    const { content, contentJson } = finished([{ type: "text", text: "half \ud83d" }]);
    expect(content).toEqual([{ type: "text", text: "half \ufffd" }]);
    expect(JSON.parse(contentJson)).toEqual(content);
  });

  test("keeps a block of another type as it is, up to 101 levels", () => {
    const block = { type: "new", value: nestedLists(100) };
    expect(finished([block]).content).toEqual([block]);
  });

  test.each<[string, () => unknown]>([
    ["two starts", () => begun().begin({})],
    ["a start without a message", () => new AnswerDraft("m", 1).begin(undefined)],
    ["content before its start", () => new AnswerDraft("m", 1).open(0, { type: "text", text: "" })],
    ["a block that is no object", () => begun().open(0, "x")],
    ["a block that starts twice", () => finished([]) && begun({ content: [{ type: "text" }] }).open(0, {})],
    ["a block without a type", () => finished([{}])],
    ["a text without text", () => finished([{ type: "text" }])],
    [
      "a tool result from the model",
      () => finished([{ type: "tool_result", tool_use_id: "t", content: "" }]),
    ],
    ["a type that cannot be printed", () => finished([{ type: { toString: 1 } }])],
    ["a type of 10,000 levels", () => finished([{ type: nestedLists(10_000) }])],
    ["a block of another type with 102 levels", () => finished([{ type: "new", value: nestedLists(101) }])],
    ["one with 10,000", () => finished([{ type: "new", value: nestedLists(10_000) }])],
    ["a block of another type with 50,000 values", () => finished([{ type: "new", value: zeros(50_000) }])],
    [
      "blocks of another type with 50,000 values in all",
      () => finished([30_000, 20_000].map((n) => ({ type: "new", value: zeros(n) }))),
    ],
    ["a piece for no block", () => begun().extend(0, "text", "x")],
    ["a piece of text for a call", () => begun({ content: [call("a")] }).extend(0, "text", "x")],
    ["a piece of an input for a text", () => begun({ content: [{ type: "text" }] }).extend(0, "input", "{}")],
    ["a thought for a text", () => begun({ content: [{ type: "text" }] }).extend(0, "thinking", "x")],
    ["a stop reason that is no text", () => begun({ stop_reason: 7 }).finish()],
    ["an empty stop reason", () => begun({ stop_reason: "" }).finish()],
  ])("refuses %s", (_, play) => {
    expect(play).toThrow(expect.objectContaining({ name: "MalformedAnswerError" }));
  });
});

describe("a tool call", () => {
  test("may have an input of 100 levels; of 101 or 10,000 it is refused, before anything overflows", () => {
    const nested = (levels: number) => JSON.parse(`${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`);
    const { content, refusedCalls } = finished([
      call("a", nested(100)),
      call("b", nested(101)),
      call("c", nested(10_000)),
    ]);
    expect([...refusedCalls.keys()]).toEqual(["b", "c"]);
    expect(refusedCalls.get("b")).toContain("at most 100 levels");
    expect(content.slice(1)).toEqual([call("b"), call("c")]);
  });

  test("is refused if the inputs of its answer have too many values, and the calls before and behind it are not", () => {
    const { content, refusedCalls } = finished([
      call("a", { list: zeros(30_000) }),
      call("b", { list: zeros(10_000), more: [zeros(10), {}] }),
      call("c", { list: zeros(5_000) }),
      call("d", Object.fromEntries(zeros(600_000).map((_, i) => [`k${i}`, 0]))),
    ]);
    expect([...refusedCalls.keys()]).toEqual(["b", "d"]);
    expect(refusedCalls.get("b")).toContain("may hold 39760 values");
    expect(content[1]).toEqual(call("b"));
    expect(content[2]).toEqual(call("c", { list: zeros(5_000) }));
  });

  test.each([[[1]], [null], ["text"], [7], [undefined]])("with the input %j is refused", (input) => {
    const { content, refusedCalls } = finished([{ ...call("t"), input }], "tool_use");
    expect(content).toEqual([call("t")]);
    expect(refusedCalls.get("t")).toContain("must be a JSON object");
  });

  test.each([
    ["tool_use", "not valid JSON"],
    ["max_tokens", "the answer was cut off"],
  ])("whose streamed input is no JSON is refused, and never repaired (%s)", (stop_reason, why) => {
    const draft = begun();
    draft.open(0, { type: "tool_use", id: "t", name: "look", input: {} });
    draft.extend(0, "input", '{\\"path\\":');
    draft.stop(stop_reason);
    const { content, refusedCalls } = draft.finish();
    expect(content).toEqual([call("t")]);
    expect(refusedCalls.get("t")).toContain(why);
  });

  test("has an id of its own, however many have the same one or none", () => {
    const { content, refusedCalls } = finished(
      [call("a_2"), call("a"), call("a"), call("a"), call(""), call(undefined), call("x".repeat(400))],
      "tool_use",
    );
    expect(idsOf(content)).toEqual(["a_2", "a", "a_3", "a_4", "call", "call_2", "x".repeat(256)]);
    expect(refusedCalls.size).toBe(0);
  });

  test("stays within 256 characters of id also when its id is not its own", () => {
    const ids = idsOf(finished([call("x".repeat(300)), call("x".repeat(300))], "tool_use").content);
    expect(new Set(ids).size).toBe(2);
    for (const id of ids) expect(String(id).length).toBeLessThanOrEqual(256);
  });

  test("has a name of at most 128 characters, well formed", () => {
    const { content } = finished([call("a", {}, "n".repeat(300)), call("b", {}, 7), call("c", {}, "\ud83d")]);
    expect(content.map(({ name }) => name)).toEqual(["n".repeat(128), "", "\ufffd"]);
  });

  test("beyond the 64th is refused, the others are not", () => {
    const calls = Array.from({ length: 66 }, (_, i) => call(`t${i}`));
    const { content, refusedCalls } = finished(calls, "tool_use");
    expect(content).toEqual(calls);
    expect([...refusedCalls.keys()]).toEqual(["t64", "t65"]);
    expect(refusedCalls.get("t64")).toContain("at most 64 tool calls");
  });
});

describe("an answer that is too large", () => {
  const limitBytes = new AnswerDraft("m", MAX_TOKENS).limitBytes;

  test("is given up at its first byte beyond the limit, and still counts", () => {
    const draft = begun();
    draft.open(0, { type: "text", text: "" });
    draft.extend(0, "text", "x".repeat(limitBytes));
    expect(draft.isTooLarge).toBe(false);
    draft.extend(0, "text", "x");
    expect(draft.isTooLarge).toBe(true);
    draft.stop("end_turn");
    draft.count({ output_tokens: 9 });
    expect(draft.usage.output_tokens).toBe(9);
    expect(() => draft.finish()).toThrow(`larger than ${limitBytes} bytes`);
  });

  test("may have a limit that grows with the tokens asked for", () => {
    expect(new AnswerDraft("m", 2 * MAX_TOKENS).limitBytes).toBeGreaterThan(limitBytes);
  });

  test("may be one of 1,025 blocks", () => {
    const blocks = Array.from({ length: 1_025 }, () => ({ type: "text", text: "" }));
    expect(finished(blocks.slice(1)).content).toHaveLength(1_024);
    expect(() => finished(blocks)).toThrow("1024 blocks");
  });
});
