/** Guarantee: all parts of an answer are kept, and of one that is too large what it cost. */
import { expect, test } from "vitest";
import { AnswerDraft } from "../../../../../src/worker/model/anthropic/answer-draft.ts";
import { readerOf } from "../../../../../src/worker/model/anthropic/stream.ts";
import { block, messageBody, messageEnd, messageStart } from "../scripted-provider.ts";

test("every citation of a text is kept, in the order in which they came", () => {
  const draft = new AnswerDraft("m", 1_000);
  const reader = readerOf("text/event-stream", true, draft);
  const cited = (cited_text: string) => ({ type: "citations_delta", citation: { cited_text } });
  const text = block(
    0,
    { type: "text", text: "", citations: [] },
    cited("one"),
    { type: "text_delta", text: "So." },
    cited("two"),
  );
  const bare = block(1, { type: "text", text: "" }, cited("three"), cited("four"));
  reader.feed(Buffer.from(messageStart() + text + bare + messageEnd()));
  reader.end(true);
  expect(draft.finish().content).toEqual([
    { type: "text", text: "So.", citations: [{ cited_text: "one" }, { cited_text: "two" }] },
    { type: "text", text: "", citations: [{ cited_text: "three" }, { cited_text: "four" }] },
  ]);
});

test("a whole message that is too large says so, and what it cost, though its end tells that", () => {
  const draft = new AnswerDraft("m", 100);
  const reader = readerOf("application/json", false, draft);
  const body = Buffer.from(messageBody([{ type: "text", text: "x".repeat(3 * draft.limitBytes) }]));
  for (let at = 0; at < body.length; at += 10_000) reader.feed(body.subarray(at, at + 10_000));
  reader.end(true);
  expect(() => draft.finish()).toThrow("the answer is larger than");
  expect([draft.isBegun, draft.isComplete]).toEqual([true, true]);
  expect(draft.usage).toMatchObject({ input_tokens: 10, output_tokens: 7, cache_creation_input_tokens: 4 });
});

test("an answer that names no model is that of the requested one", () => {
  for (const model of ["", undefined, 5]) {
    const draft = new AnswerDraft("asked-for", 100);
    draft.begin({ model, stop_reason: "end_turn", content: [] });
    expect(draft.finish().model).toBe("asked-for");
  }
});

test("tokens that only the start of an answer counts are still counted at its end", () => {
  const draft = new AnswerDraft("m", 100);
  const usage = { input_tokens: 1, cache_read_input_tokens: 2, cache_creation_input_tokens: 3 };
  draft.begin({ usage: { ...usage, output_tokens: 1 } });
  draft.count({ output_tokens: 9 });
  expect(draft.usage).toEqual({ ...usage, output_tokens: 9 });
});
