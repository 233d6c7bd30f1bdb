/** Guarantee: a run holds on to no call of the model that has ended. */
import { expect, test } from "vitest";
import { z } from "zod";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import type { CallControl, Model, ModelRequest } from "../../../src/worker/model/model.ts";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { latch } from "../../helpers/latch.ts";
import { openStage } from "../../stage/stage.ts";

/** The offline model; `late` counts stops that a call hears of after its end. */
function modelThatListens(baseUrl: string) {
  const real = createAnthropicModel({ apiKey: "offline", baseUrl });
  closeAtEnd(() => real.stop());
  const seen = { calls: 0, late: 0 };
  const model: Model = {
    limiterName: (id) => real.limiterName?.(id) ?? id,
    stop: () => real.stop(),
    async call(request: ModelRequest, control: CallControl) {
      const outcome = await real.call(request, control);
      seen.calls += 1;
      control.abortCall = () => {
        seen.late += 1;
      };
      return outcome;
    },
  };
  return { model, seen };
}

test("the stop of a run reaches none of its calls that have ended", async () => {
  const call = { type: "tool_use" as const, name: "wait", input: {} };
  const scenario = { turns: [{ content: [call] }, { content: [{ type: "text" as const, text: "Done." }] }] };
  const stage = await openStage({ scenario });
  const { model, seen } = modelThatListens(stage.offline.url);
  const [begun, stopped] = [latch(), latch()];
  const wait = defineTool({
    name: "wait",
    description: "Waits until the run is stopped.",
    input: z.object({}),
    run(_, { signal }) {
      signal.addEventListener("abort", () => stopped.open());
      begun.open();
      return stopped.opened.then(() => "stopped");
    },
  });
  const worker = await stage.startWorker({ model, tools: [wait], drainGraceMs: 0 });
  await stage.task("work");
  await begun.opened;
  await worker.stop();
  await stopped.opened;
  expect(seen).toEqual({ calls: 1, late: 0 });
});
