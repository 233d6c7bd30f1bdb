import { describe, expect, test } from "vitest";
import { TurnBuilder } from "../../../../src/worker/model/turn-builder.ts";

const start = (message: object = {}) => ({ type: "message_start", message: { content: [], ...message } });
const stop = (stop_reason: unknown, usage?: object) => ({
  type: "message_delta",
  delta: { stop_reason },
  usage,
});

function built(...events: unknown[]) {
  const builder = new TurnBuilder("asked-for");
  for (const event of events) builder.add(event);
  return builder.build();
}

describe("TurnBuilder", () => {
  test("names the requested model when the answer names none", () => {
    expect(built(start(), stop("end_turn")).model).toBe("asked-for");
  });

  test("takes the last word on each counter and ignores what is no count", () => {
    const usage = {
      input_tokens: 10,
      output_tokens: 1,
      cache_read_input_tokens: null,
      service_tier: "standard",
    };
    const { usage: total } = built(
      start({ usage }),
      stop("end_turn", {
        output_tokens: 50,
        input_tokens: null,
        cache_read_input_tokens: 7,
        cache_creation_input_tokens: -3,
      }),
      stop("end_turn", { output_tokens: Number.MAX_SAFE_INTEGER, cache_read_input_tokens: 1e20 }),
    );
    expect(total).toEqual({
      input_tokens: 10,
      output_tokens: 50,
      cache_read_input_tokens: 7,
      cache_creation_input_tokens: 0,
    });
  });

  test("takes a tool input of 100 levels, and refuses one of 10,000 before anything overflows", () => {
    const nested = (levels: number) => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;
    const call = (levels: number) =>
      built(
        start(),
        {
          type: "content_block_start",
          index: 0,
          content_block: { type: "tool_use", id: "t", name: "x", input: {} },
        },
        {
          type: "content_block_delta",
          index: 0,
          delta: { type: "input_json_delta", partial_json: nested(levels) },
        },
        stop("tool_use"),
      );
    expect(call(100).content).toHaveLength(1);
    expect(() => call(101)).toThrow("at most 100 levels");
    expect(() => call(10_000)).toThrow("at most 100 levels");
  });

  test("orders blocks by their index, whatever order they came in", () => {
    const block = (index: number, text: string) => ({
      type: "content_block_start",
      index,
      content_block: { type: "text", text },
    });
    expect(built(start(), block(2, "c"), block(0, "a"), stop("end_turn")).content).toEqual([
      { type: "text", text: "a" },
      { type: "text", text: "c" },
    ]);
  });

  test("takes content that came with the start", () => {
    const content = [{ type: "text", text: "early" }];
    expect(built(start({ content, stop_reason: "end_turn" })).content).toEqual(content);
  });

  test("does not touch the events it was given", () => {
    const content_block = Object.freeze({ type: "text", text: "" });
    const turn = built(
      start(),
      { type: "content_block_start", index: 0, content_block },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "x" } },
      stop("end_turn"),
    );
    expect(turn.content).toEqual([{ type: "text", text: "x" }]);
    expect(content_block.text).toBe("");
  });

  test("ignores events of unknown types and everything after the end", () => {
    const turn = built(
      start(),
      { type: "ping" },
      7,
      null,
      stop("end_turn"),
      { type: "message_stop" },
      start(),
    );
    expect(turn.stopReason).toBe("end_turn");
  });

  test.each<[string, unknown[]]>([
    ["two starts", [start(), start()]],
    ["a start without a message", [{ type: "message_start" }]],
    [
      "a block without an index",
      [start(), { type: "content_block_start", content_block: { type: "text", text: "" } }],
    ],
    ["a block that is no object", [start(), { type: "content_block_start", index: 0, content_block: "x" }]],
    ["a block without a type", [start({ content: [{}] }), stop("end_turn")]],
    [
      "a delta for no block",
      [start(), { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "" } }],
    ],
    ["a stop reason that is no text", [start(), stop(7)]],
    ["an empty stop reason", [start(), stop("")]],
  ])("refuses %s", (_, events) => {
    expect(() => built(...events)).toThrow(expect.objectContaining({ name: "MalformedTurnError" }));
  });

  test.each(["max_tokens", "model_context_window_exceeded", "refusal"])(
    "an answer that %s cut off keeps its last call without input, whatever there was of it",
    (reason) => {
      const call = { type: "tool_use", id: "t", name: "n", input: {} };
      for (const partial_json of ['{"a": ', "12", '{"a": 1}}']) {
        const delta = { type: "input_json_delta", partial_json };
        const turn = built(
          start(),
          { type: "content_block_start", index: 0, content_block: call },
          { type: "content_block_delta", index: 0, delta },
          stop(reason),
        );
        expect(turn.content).toEqual([call]);
      }
    },
  );
});
