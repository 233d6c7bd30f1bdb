/** Guarantee: an answer that breaks off is charged what has arrived of it, also where its provider reports no tokens at all. */
import { expect, test } from "vitest";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { openStage } from "../../stage/stage.ts";
import { messageStart, send, startProvider, textBlock } from "../../unit/worker/model/scripted-provider.ts";

test("an answer that breaks off and reports nothing is charged its prompt and the output that has arrived", async () => {
  const provider = await startProvider((response) => {
    if (provider.received.length > 1) {
      send(response, [{ type: "text", text: "done" }], { usage: { input_tokens: 900, output_tokens: 10 } });
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(messageStart({ usage: undefined }) + textBlock(0, "x".repeat(4_000)));
  });
  const stage = await openStage();
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: provider.baseUrl });
  closeAtEnd(() => model.stop());
  await stage.startWorker({ model });
  const agent = await stage.watchedTask("work");
  const { usage } = await stage.reply(agent);
  expect(usage.output_tokens).toBe(1_000 + 10);
  expect(usage.input_tokens).toBeGreaterThan(900 + 100);
});
