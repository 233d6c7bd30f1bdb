import { expect, test } from "vitest";
import { CallResult, textOf } from "../../../../../src/worker/tools/mcp/answer.ts";

test("what a server says in words goes before its structured content, which stands in if it says nothing", () => {
  const structuredContent = { total: 3 };
  const said = { content: [{ type: "text", text: "Three." }], structuredContent };
  expect(textOf(CallResult.parse(said))).toBe("Three.");
  expect(textOf(CallResult.parse({ structuredContent }))).toBe('{"total":3}');
});
