/** Guarantee: what a provider says in an unusual place is kept, and what it counts is believed where it can be. */
import { expect, test } from "vitest";
import { AnswerDraft } from "../../../../../src/worker/model/anthropic/answer-draft.ts";

/** Tokens that a provider may add to each prompt. */
const HIDDEN_TOKENS = 200_000;

test("a prompt may have a token for each of its bytes, besides those that a gateway adds", () => {
  const promptBytes = 1_000_000;
  const inputOf = (input_tokens: number) => {
    const draft = new AnswerDraft("m", 100, () => promptBytes);
    draft.begin({ usage: { input_tokens } });
    return draft.usage.input_tokens;
  };
  expect(inputOf(promptBytes + HIDDEN_TOKENS)).toBe(promptBytes + HIDDEN_TOKENS);
  expect(inputOf(promptBytes + HIDDEN_TOKENS + 1)).toBe(0);
});

test("text that stands in the start of a block is kept before the pieces that follow", () => {
  const draft = new AnswerDraft("m", 100);
  draft.begin({ stop_reason: "end_turn" });
  draft.open(0, { type: "thinking", thinking: "Well", signature: "s" });
  draft.extend(0, "thinking", ", so.");
  draft.open(1, { type: "text", text: "Hel" });
  draft.extend(1, "text", "lo");
  expect(draft.finish().content).toEqual([
    { type: "thinking", thinking: "Well, so.", signature: "s" },
    { type: "text", text: "Hello" },
  ]);
});

test.each(["max_tokens", "model_context_window_exceeded", "refusal"])(
  "a call that %s cut off is said to be cut off, not to be wrong",
  (stopReason) => {
    const draft = new AnswerDraft("m", 100);
    draft.begin({ stop_reason: stopReason });
    draft.open(0, { type: "tool_use", id: "t1", name: "grep", input: {} });
    draft.extend(0, "input", '{\\"pattern\\": \\"a');
    expect(draft.finish().refusedCalls.get("t1")).toContain("the answer was cut off");
  },
);

test("a refused call whose long id is cut within a character is refused by the id that it has in the answer", () => {
  const draft = new AnswerDraft("m", 100);
  const id = `${"i".repeat(255)}😀`;
  draft.begin({ stop_reason: "tool_use", content: [{ type: "tool_use", id, name: "grep", input: [] }] });
  const { content, refusedCalls } = draft.finish();
  expect([...refusedCalls.keys()]).toEqual(content.map((block) => block.id));
});
