/** Guarantee: an event that is named an error is one, in each spelling that server-sent events allow, and no other event is. */
import { APIError } from "@anthropic-ai/sdk";
import { expect, test } from "vitest";
import { AnswerDraft } from "../../../../../src/worker/model/anthropic/answer-draft.ts";
import { readerOf } from "../../../../../src/worker/model/anthropic/stream.ts";
import { messageEnd, messageStart, textBlock } from "../scripted-provider.ts";

function read(body: string) {
  const draft = new AnswerDraft("m", 1_000);
  const reader = readerOf("text/event-stream", true, draft);
  reader.feed(Buffer.from(body));
  reader.end(true);
  return draft.finish();
}

const ERROR = '{"error":{"type":"overloaded_error","message":"Overloaded"}}';

test.each([
  ["with a blank behind the colon", `event: error\ndata: ${ERROR}\n\n`],
  ["without one", `event:error\ndata:${ERROR}\n\n`],
  ["with carriage returns", `event: error\r\ndata: ${ERROR}\r\n\r\n`],
  ["without one and with carriage returns", `event:error\r\ndata:${ERROR}\r\n\r\n`],
])("an error that its name alone tells is one %s", (_, event) => {
  expect(() => read(messageStart() + event)).toThrow(APIError);
  expect(() => read(messageStart() + event)).toThrow(expect.objectContaining({ type: "overloaded_error" }));
});

test("an event behind an error without data, and one whose name begins so, are what they say", () => {
  const { content } = read(
    `${messageStart()}event: error\n\n${textBlock(0, "fine")}event: errors\ndata: {"count":0}\n\n${messageEnd()}`,
  );
  expect(content).toEqual([{ type: "text", text: "fine" }]);
});
