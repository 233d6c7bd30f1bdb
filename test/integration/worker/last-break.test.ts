/** The reply of a run that breaks off for the last time tells what it has used. */
import { expect, test } from "vitest";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import { run } from "../../../src/worker/run/run.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { runContextOf } from "../../helpers/run-context.ts";
import { openStage } from "../../stage/stage.ts";
import { send, startProvider } from "../../unit/worker/model/scripted-provider.ts";

test("a call that was paid for in vain, in the attempt that broke off", async () => {
  const provider = await startProvider((response) => {
    if (provider.received.length > 1) send(response, [{ type: "text", text: "done" }]);
    else send(response, [{ type: "text", text: "half a" }], { stop_reason: null });
  });
  const stage = await openStage();
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: provider.baseUrl });
  closeAtEnd(() => model.stop());
  const agent = await stage.task("work");
  await stage.redis.hset(stage.keys.agent(agent).record, { breaks: "7" });
  const { store } = stage;
  const settle: typeof store.settle = (address, input) =>
    input.natural ? Promise.reject(new Error("OOM command not allowed")) : store.settle(address, input);
  const context = runContextOf(stage, { model, store: { ...store, settle }, random: () => 0 });
  await run(context, { address: agent, wake: 1, timesTaken: 1 });
  const reply = await stage.reply(agent);
  expect(reply).toMatchObject({ status: "failed", stop_reason: "worker_lost" });
  expect(reply.tokens).toBeGreaterThan(0);
});
