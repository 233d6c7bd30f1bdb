/** A turn may have as many blocks as a body holds. */
import { expect, test } from "vitest";
import { checkMessages } from "../../../src/offline/validation.ts";

const BLOCKS = 150_000;
const tools = [{ name: "glob", input_schema: { type: "object" } }];
const ids = Array.from({ length: BLOCKS }, (_, n) => `toolu_${n}`);
const answers = ids.map((id) => ({ type: "tool_result", tool_use_id: id }));

function problemOf(results: readonly object[]): string | undefined {
  const messages = [
    { role: "user", content: "go" },
    { role: "assistant", content: ids.map((id) => ({ type: "tool_use", id, name: "glob", input: {} })) },
    // Two messages of one role count as one turn.
    { role: "user", content: results.slice(0, 1) },
    { role: "user", content: results.slice(1) },
  ];
  const checked = checkMessages(JSON.stringify({ model: "m", max_tokens: 1, tools, messages }));
  return checked.status === "invalid" ? checked.problem : undefined;
}

test("each of 150,000 calls is matched with its result", () => {
  expect(problemOf(answers)).toBeUndefined();
});
