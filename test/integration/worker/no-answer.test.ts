/**
 * Guarantee: a provider that answers 200 without a message is not asked without end. It may have billed each of these calls, so
 * they count: five in a row end the run, typed. The page of a proxy (`model-port.test.ts`) was not billed.
 */
import { expect, test } from "vitest";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { openStage } from "../../stage/stage.ts";
import { startProvider } from "../../unit/worker/model/scripted-provider.ts";

const MOST_CALLS = 5;
const STREAM = "text/event-stream";
const JSON_TYPE = "application/json";
const stop = 'event: message_stop\ndata: {"type":"message_stop"}\n\n';

test.each([
  ["nothing", JSON_TYPE, ""],
  ["null", JSON_TYPE, "null"],
  ["a list", JSON_TYPE, "[]"],
  ["a text", JSON_TYPE, '"hello"'],
  ["half a message", JSON_TYPE, '{"id":"m","type":"mess'],
  ["an empty stream", STREAM, ""],
  ["a stream of pings", STREAM, 'event: ping\ndata: {"type":"ping"}\n\n'],
  ["a stream that begins with its end", STREAM, stop],
  [
    "a stream without a message in its start",
    STREAM,
    `event: message_start\ndata: {"type":"message_start"}\n\n${stop}`,
  ],
  ["a stream that is no JSON", STREAM, "data: {oops\n\n"],
])("%s", async (_, type, body) => {
  const provider = await startProvider((response) => {
    response.writeHead(200, { "content-type": type }).end(body);
  });
  const stage = await openStage();
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: provider.baseUrl });
  closeAtEnd(() => model.stop());
  await stage.startWorker({ model, random: () => 0 });
  const reply = await stage.parent().task("go");
  expect(reply).toMatchObject({ status: "failed", stop_reason: "model_error" });
  // What their prompts may have cost is estimated: the provider does not say.
  expect(reply.tokens).toBeGreaterThan(MOST_CALLS);
  expect(reply.error).toMatch(/^Five paid model calls in a row/);
  expect(provider.received.length).toBeLessThanOrEqual(MOST_CALLS);
});
