/** Guarantee: a call that a crash cut off has the price of the model that answered last, also where it answers under its dated name. */
import { expect, test } from "vitest";
import { costUsd, priceOf } from "../../../src/shared/protocol/usage.ts";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { endLeases } from "../../helpers/leases.ts";
import { until } from "../../helpers/until.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";
import { send, startProvider } from "../../unit/worker/model/scripted-provider.ts";

const look = [{ type: "tool_use", id: "t1", name: "glob", input: { pattern: "*" } }];
const usage = { input_tokens: 900, output_tokens: 10 };

test("the call that a killed worker had begun has the price of the model whose snapshot answered last", async () => {
  let hasCrashed = false;
  const asked: unknown[] = [];
  const provider = await startProvider((response, { json }) => {
    asked.push(json?.model);
    if (json?.model === "claude-opus-4-5") {
      response.writeHead(429, { "retry-after": "30" }).end("{}");
      return;
    }
    const model = "claude-haiku-4-5-20251001";
    if (hasCrashed) send(response, [{ type: "text", text: "done" }], { model, usage });
    else if (asked.length === 2) send(response, look, { model, usage, stop_reason: "tool_use" });
  });
  const stage = await openStage({ timing: LONG_TIMING });
  const victim = await stage.spawnWorker({ modelUrl: provider.baseUrl });
  const parent = stage.parent("bereft");
  const chain = { model: "claude-opus-4-5", fallback_models: ["claude-haiku-4-5"] };
  const task = parent.task({ prompt: "x".repeat(4_000), ...chain });
  await until(() => asked.length === 3);
  await victim.kill();
  hasCrashed = true;
  await endLeases(stage);
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: provider.baseUrl });
  closeAtEnd(() => model.stop());
  await stage.startWorker({ model });
  const reply = await task;
  const used = await until(async () => {
    const found = await parent.usage();
    return found.tokens > reply.tokens && found;
  });
  const price = priceOf("claude-haiku-4-5");
  expect(used.cost_usd).toBeCloseTo(price ? costUsd(used.usage, price) : 0, 5);
});
