import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  addUsage,
  ContentBlock,
  isText,
  isToolResult,
  isToolUse,
  promptTokens,
  totalTokens,
  Usage,
  ZERO_USAGE,
} from "../../../../src/shared/protocol/content.ts";

describe("ContentBlock", () => {
  test.each([
    { type: "text", text: "", citations: [{ cited_text: "x" }] },
    { type: "tool_use", id: "toolu_1", name: "grep", input: { pattern: "x" }, caller: { type: "direct" } },
    { type: "tool_result", tool_use_id: "toolu_1", content: "done" },
    { type: "tool_result", tool_use_id: "toolu_1", content: "no", is_error: true },
    { type: "thinking", thinking: "", signature: "c2ln" },
    { type: "block_of_tomorrow", anything: [{ goes: null }] },
  ])("keeps every field of %j", (block) => {
    expect(ContentBlock.parse(block)).toEqual(block);
  });

  test.each([
    { type: "text" },
    { type: "tool_use", id: "", name: "grep", input: {} },
    { type: "tool_use", id: "toolu_1", name: "grep", input: [] },
    { type: "tool_use", id: "toolu_1", name: "grep", input: "{}" },
    { type: "tool_result", tool_use_id: "toolu_1", content: [{ type: "text", text: "x" }] },
    { type: "" },
    { text: "no type" },
    "text",
  ])("refuses %j: a known type with wrong fields never passes as an unknown block", (block) => {
    expect(ContentBlock.safeParse(block).success).toBe(false);
  });

  test("is told apart by exactly one of the guards, or none when it is opaque", () => {
    const blocks: ContentBlock[] = [
      { type: "text", text: "x" },
      { type: "tool_use", id: "t", name: "n", input: {} },
      { type: "tool_result", tool_use_id: "t", content: "" },
      { type: "thinking", thinking: "", signature: "" },
    ];
    expect(blocks.map((block) => [isText(block), isToolUse(block), isToolResult(block)])).toEqual([
      [true, false, false],
      [false, true, false],
      [false, false, true],
      [false, false, false],
    ]);
  });
});

describe("Usage", () => {
  const usage = fc.record({
    input_tokens: fc.nat(),
    output_tokens: fc.nat(),
    cache_read_input_tokens: fc.nat(),
    cache_creation_input_tokens: fc.nat(),
  });

  test.each([-1, 0.5, Number.NaN, null])("refuses a count of %s", (input_tokens) => {
    expect(Usage.safeParse({ ...ZERO_USAGE, input_tokens }).success).toBe(false);
  });

  test("adds up in any order, and nothing changes it by nothing", () => {
    fc.assert(
      fc.property(usage, usage, (a, b) => {
        expect(addUsage(a, b)).toEqual(addUsage(b, a));
        expect(addUsage(a, ZERO_USAGE)).toEqual(a);
        expect(totalTokens(addUsage(a, b))).toBe(totalTokens(a) + totalTokens(b));
      }),
    );
  });

  test("counts cached input as part of the prompt", () => {
    const counted = {
      input_tokens: 1,
      output_tokens: 10,
      cache_read_input_tokens: 100,
      cache_creation_input_tokens: 1000,
    };
    expect(promptTokens(counted)).toBe(1101);
    expect(totalTokens(counted)).toBe(1111);
  });
});
