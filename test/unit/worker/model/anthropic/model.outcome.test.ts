/** Guarantee: what a call is said to have cost, and when it is over. */
import { expect, test } from "vitest";
import {
  answer,
  ask,
  connect,
  hold,
  messageEnd,
  messageStart,
  startProvider,
  stream,
  textBlock,
} from "../scripted-provider.ts";

test("a stream that breaks off before its message begins was not bought", async () => {
  const provider = await startProvider((response, { socket }) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(": wait\n\n", () => socket.resetAndDestroy());
  });
  const outcome = await connect(provider).call(ask(), hold());
  expect(outcome).toMatchObject({ status: "failed", failure: { kind: "network", retryable: true } });
  expect(outcome).not.toHaveProperty("usage");
});

const LONG = "x".repeat(500_000);
const INPUT_TOKENS = 600_000;

test.each([
  ["system prompt", { system: LONG }],
  [
    "conversation",
    { messages: [{ role: "user" as const, content: [{ type: "text" as const, text: LONG }] }] },
  ],
])("the tokens of a long %s are believed", async (_, over) => {
  const start = messageStart({ usage: { input_tokens: INPUT_TOKENS, output_tokens: 1 } });
  const provider = await startProvider((response) =>
    stream(response, start + textBlock(0, "hello") + messageEnd()),
  );
  expect(await connect(provider).call(ask(over), hold())).toMatchObject({
    answer: { usage: { input_tokens: INPUT_TOKENS } },
  });
});

test("no call outlives the stop of its model, not even the first", async () => {
  const provider = await startProvider((response) => stream(response, answer()));
  const model = connect(provider);
  const ended: string[] = [];
  const call = model.call(ask(), hold()).then(({ status }) => ended.push(status));
  await model.stop();
  expect(ended).toEqual(["aborted"]);
  await call;
});
