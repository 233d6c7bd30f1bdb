import { expect, test } from "vitest";
import { newAnswer, newCompacted } from "../../../../src/worker/loop/log.ts";
import { NextPurchase, unusedCallOf } from "../../../../src/worker/run/purchase.ts";

const usage = {
  input_tokens: 3,
  output_tokens: 4,
  cache_read_input_tokens: 0,
  cache_creation_input_tokens: 0,
};
const content = [{ type: "tool_use" as const, id: "c", name: "look", input: {} }];
const answer = newAnswer(
  1,
  { content, contentJson: JSON.stringify(content), stopReason: "tool_use", model: "m", usage, costUsd: 0.5 },
  1,
);

/** The answer as the state of its run knows it. */
const LAST = {
  message: 1,
  turn: 1,
  stopReason: "tool_use",
  refusal: undefined,
  finalCall: undefined,
  usage,
  costUsd: 0.5,
  calls: [
    {
      id: "c",
      name: "look",
      input: {},
      isStarted: true,
      isAnswered: false,
      repeats: 0,
      isPermissionAsked: false,
    },
  ],
  isMute: false,
};

test("an answer is booked under the name by which Redis knew its call, not under that of the next one", () => {
  const purchase = new NextPurchase("sa-1", "claim", 1);
  const update = purchase.updateFor(LAST, 3, { results: 1 });
  expect(update?.id).toBe("sa-1.3.1");
  purchase.committed([answer], update);
  expect(purchase.booked).toMatchObject([{ id: "sa-1.claim", key: "1", costUsd: 0.5 }]);
  expect(purchase.id).toBe("sa-1.3.1");
});

test("a summary that cannot enter the log was bought for the message that it comes before", () => {
  const value = { v: 1 as const, before: 1, summary: "so far", model: "m", cost_usd: 0.25, duration_ms: 1 };
  const { entry } = newCompacted(2, { ...value, usage });
  expect(unusedCallOf(entry)).toMatchObject({ message: 3, isCutOff: true, costUsd: 0.25 });
});
