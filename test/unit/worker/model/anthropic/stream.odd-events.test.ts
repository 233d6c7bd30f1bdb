/** Guarantee: an event that means nothing is malformed and asked for again, and no event fills the memory or costs a paid answer. */
import { expect, test } from "vitest";
import { AnswerDraft } from "../../../../../src/worker/model/anthropic/answer-draft.ts";
import { readerOf } from "../../../../../src/worker/model/anthropic/stream.ts";
import {
  answer,
  ask,
  block,
  connect,
  event,
  hold,
  messageEnd,
  messageStart,
  startProvider,
  stream,
} from "../scripted-provider.ts";

const text = event("content_block_start", { index: 0, content_block: { type: "text", text: "" } });

test.each([
  ["a delta that is null", text + event("content_block_delta", { index: 0, delta: null })],
  [
    "a delta without an index",
    text + event("content_block_delta", { delta: { type: "text_delta", text: "x" } }),
  ],
  [
    "a delta with an index of text",
    text + event("content_block_delta", { index: "0", delta: { type: "text_delta", text: "x" } }),
  ],
  ["a block without a type", event("content_block_start", { index: 0, content_block: { type: "" } })],
])("an answer with %s is malformed, and may be asked for again", async (_, events) => {
  const provider = await startProvider((response) =>
    stream(response, messageStart() + events + messageEnd()),
  );
  expect(await connect(provider).call(ask(), hold())).toMatchObject({
    status: "failed",
    failure: { kind: "invalid_response", retryable: true },
    usage: { input_tokens: 10 },
  });
});

/** A reader, its draft, and how many bytes it was fed. */
function reading(maxTokens = 100) {
  const draft = new AnswerDraft("m", maxTokens);
  const reader = readerOf("text/event-stream", true, draft);
  return { draft, feed: (body: string) => reader.feed(Buffer.from(body)), end: () => reader.end(true) };
}

test("what follows a whole answer may be of any length", () => {
  const { draft, feed, end } = reading();
  feed(answer("hello"));
  const chunk = "x".repeat(10_000);
  for (let fed = 0; fed <= 2 * draft.limitBytes; fed += chunk.length) feed(chunk);
  end();
  expect(draft.finish().content).toEqual([{ type: "text", text: "hello" }]);
});

test("an event of many lines that is longer than an answer may be is read no further", () => {
  const { draft, feed } = reading();
  feed(messageStart());
  const line = `data: "${"x".repeat(10_000)}",\n`;
  expect(() => {
    for (let fed = 0; fed <= 2 * draft.limitBytes; fed += line.length) feed(line);
  }).toThrow("an event is too large");
});

test("citations count as part of the answer: more of them than it may have are not kept", () => {
  const { draft, feed, end } = reading();
  const citation = { type: "citations_delta", citation: { cited_text: "x".repeat(10_000) } };
  const many = Array.from({ length: Math.ceil(draft.limitBytes / 10_000) + 1 }, () => citation);
  feed(messageStart() + block(0, { type: "text", text: "" }, ...many) + messageEnd());
  end();
  expect(draft.isTooLarge).toBe(true);
  expect(draft.usage).toMatchObject({ input_tokens: 10, output_tokens: 7 });
});
