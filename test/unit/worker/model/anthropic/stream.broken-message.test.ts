/** Guarantee: of a whole message nothing is lost with its connection, and of a part of one not what it cost. */
import { expect, test } from "vitest";
import { until } from "../../../../helpers/until.ts";
import { ask, connect, hold, messageBody, startProvider } from "../scripted-provider.ts";

/** The outcome of a call whose answer is `body`, behind which the connection breaks. */
async function outcomeOf(body: string) {
  const provider = await startProvider((response, { socket }) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.write(body, () => socket.destroy());
  });
  const outcome = await connect(provider).call(ask({ stream: false }), hold());
  await until(() => provider.sockets.size === 0, { what: "the end of the connection" });
  return outcome;
}

test("a message that is whole is the answer, though its connection breaks before the end of its transfer", async () => {
  expect(await outcomeOf(messageBody([{ type: "text", text: "hello" }]))).toMatchObject({
    status: "answer",
    answer: { content: [{ type: "text", text: "hello" }], usage: { input_tokens: 10, output_tokens: 7 } },
  });
});

test("token counts that hold further objects are found in a message that breaks off", async () => {
  const usage = {
    input_tokens: 10,
    cache_creation_input_tokens: 4,
    cache_creation: { ephemeral_5m_input_tokens: 4, ephemeral_1h_input_tokens: 0 },
    server_tool_use: { web_search_requests: 0 },
    output_tokens: 7,
  };
  const body = messageBody([{ type: "text", text: "hello" }], { usage });
  expect(await outcomeOf(body.slice(0, -1))).toMatchObject({
    status: "failed",
    failure: { kind: "network", retryable: true },
    usage: { input_tokens: 10, output_tokens: 7, cache_creation_input_tokens: 4 },
  });
});
