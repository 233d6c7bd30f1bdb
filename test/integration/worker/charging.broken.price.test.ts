/** Guarantee: an answer that breaks off costs its price, in the reply, in the metrics and for those who watch. */
import { expect, test } from "vitest";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { openStage } from "../../stage/stage.ts";
import { messageStart, send, startProvider, textBlock } from "../../unit/worker/model/scripted-provider.ts";

test("a call that was paid for in vain is in the cost of the reply, of its event and of its worker", async () => {
  const provider = await startProvider((response) => {
    if (provider.received.length > 1) {
      send(response, [{ type: "text", text: "done" }], { usage: { input_tokens: 900, output_tokens: 10 } });
      return;
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    const begun = messageStart({ usage: { input_tokens: 20_000, output_tokens: 1 } });
    response.end(begun + textBlock(0, "x".repeat(4_000)));
  });
  const stage = await openStage();
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: provider.baseUrl });
  closeAtEnd(() => model.stop());
  const worker = await stage.startWorker({ model, random: () => 0, metrics: true });
  const parent = stage.parent("payer", { model: "claude-haiku-4-5" });
  const reply = await parent.task("work");
  expect(reply.usage).toMatchObject({ input_tokens: 20_900, output_tokens: 1_010 });
  // A million tokens cost 1 USD in the prompt, and 5 in the output.
  expect(reply.cost_usd).toBeCloseTo(0.0209 + 0.00505, 9);
  const finished = (await parent.timeline(reply.agent_id)).filter(({ type }) => type === "turn_finished");
  expect(finished.map((event) => "cost_usd" in event && event.cost_usd)).toEqual([
    expect.closeTo(0.025, 9),
    expect.closeTo(0.00095, 9),
  ]);
  expect((await parent.usage()).cost_usd).toBeCloseTo(reply.cost_usd, 9);
  const { text = "" } = (await worker.metrics()) ?? {};
  const counted = [...text.matchAll(/^subagent_cost_usd_total\{.*\} (\S+)$/gm)].map(([, usd]) => Number(usd));
  expect(counted.reduce((sum, usd) => sum + usd, 0)).toBeCloseTo(reply.cost_usd, 9);
});
