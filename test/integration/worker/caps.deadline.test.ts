/** Guarantee: the time of a run is one time for all of its calls. */
import { expect, test } from "vitest";
import { SPAWN_LIMITS } from "../../../src/shared/protocol/limits.ts";
import { createAnthropicModel } from "../../../src/worker/model/anthropic/model.ts";
import type { Model } from "../../../src/worker/model/model.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { openStage } from "../../stage/stage.ts";

const LATENCY_MS = 1_000;
const scenario = {
  turns: [
    {
      content: [{ type: "tool_use" as const, name: "glob", input: { pattern: "*" } }],
      latencyMs: LATENCY_MS,
    },
    { content: [{ type: "text" as const, text: "done" }] },
  ],
};

test("a later call must be over at the same moment as the first one, however long that took", async () => {
  const stage = await openStage({ scenario });
  const real = createAnthropicModel({ apiKey: "offline", baseUrl: stage.offline.url });
  closeAtEnd(() => real.stop());
  const deadlines: number[] = [];
  const model: Model = {
    stop: () => real.stop(),
    call(request, control) {
      deadlines.push(control.deadlineMs);
      return real.call(request, control);
    },
  };
  await stage.startWorker({ model });
  const agent = await stage.task("work", { limits: { ...SPAWN_LIMITS, max_duration_ms: 600_000 } });
  expect(await stage.reply(agent)).toMatchObject({ status: "succeeded", turns: 2 });
  const [first = 0, second = 0] = deadlines;
  expect(deadlines).toHaveLength(2);
  expect(Math.abs(second - first)).toBeLessThan(LATENCY_MS / 2);
});
