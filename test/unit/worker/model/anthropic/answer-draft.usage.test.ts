/** What a call is charged whose answer was cut off: the reported tokens, and the output that has arrived. */
import { expect, test } from "vitest";
import {
  answer,
  ask,
  connect,
  event,
  hold,
  messageEnd,
  messageStart,
  startProvider,
  stream,
  textBlock,
} from "../scripted-provider.ts";

const TEXT = "x".repeat(4_000);
const TOKENS = 1_000;

/** The output tokens of a call with `maxTokens` whose response is `body`, then its end. */
async function outputOf(body: string, maxTokens = 8_000): Promise<number | undefined> {
  const model = connect(await startProvider((response) => stream(response, body)));
  const outcome = await model.call(ask({ maxTokens }), hold());
  return (outcome.status === "answer" ? outcome.answer.usage : outcome.usage)?.output_tokens;
}

test("an answer that was cut off counts the output that has arrived, a token for four bytes", async () => {
  expect(await outputOf(messageStart() + textBlock(0, TEXT.slice(0, 1_000), TEXT.slice(1_000)))).toBe(TOKENS);
  const input = { type: "tool_use", id: "toolu_1", name: "grep", input: {} };
  const pieces = event("content_block_start", { index: 0, content_block: input });
  const delta = { type: "input_json_delta", partial_json: TEXT };
  expect(await outputOf(messageStart() + pieces + event("content_block_delta", { index: 0, delta }))).toBe(
    TOKENS,
  );
});

test("it counts no more than the answer could have, and what its start reports if nothing has arrived", async () => {
  expect(await outputOf(messageStart() + textBlock(0, TEXT), 700)).toBe(700);
  expect(await outputOf(messageStart())).toBe(1);
});

test("the tokens that the end of an answer reports are its tokens", async () => {
  expect(await outputOf(answer(TEXT))).toBe(7);
  const broken = messageStart() + textBlock(0, TEXT) + messageEnd().replace(event("message_stop"), "");
  expect(await outputOf(broken)).toBe(7);
});

test("an answer whose end reports no tokens counts what has arrived", async () => {
  expect(await outputOf(messageStart() + textBlock(0, TEXT) + messageEnd("end_turn", {}))).toBe(TOKENS);
});
