import { expect, test } from "vitest";
import { ZERO_USAGE } from "../../../../src/shared/protocol/content.ts";
import { costUsd, roundUsd } from "../../../../src/shared/protocol/usage.ts";
import { replyBody } from "../../../../src/worker/loop/reply-body.ts";
import { RunState } from "../../../../src/worker/loop/state.ts";

const rules = {
  limits: { max_turns: 1, max_tokens: 1, max_duration_ms: 1 },
  model: "m",
  idempotentTools: new Set<string>(),
  canAsk: false,
};

test.for([
  [{ cap: "max_cost", of: "agent" }, "The budget of this agent has no room for another call."],
  [{ cap: "max_cost", of: "parent" }, "The budget of its parent has no room for another call."],
  [{ cap: "max_total_tokens", of: "tenant" }, "The budget of its tenant has no room for another call."],
  [{ cap: "max_cost" }, undefined],
  [undefined, undefined],
] as const)("a reply says whose budget has no room: %j", ([overBudget, sentence]) => {
  expect(replyBody(Object.assign(new RunState(1), { overBudget }), rules).error).toBe(sentence);
});

test("costs of calls, and their sum in a reply, do not end in the noise of binary fractions", () => {
  const rates = { input: 1, output: 5, cache_read: 0.1, cache_write: 1.25 };
  const used = { ...ZERO_USAGE, input_tokens: 102, output_tokens: 7, cache_read_input_tokens: 9 };
  expect(costUsd(used, rates)).toBe(0.0001379);
  const state = new RunState(1);
  for (const cost of [0.1, 0.2]) state.tally.spend(ZERO_USAGE, cost);
  expect(replyBody(state, rules).cost_usd).toBe(0.3);
  expect(roundUsd(123_456.000_000_000_4)).toBe(123_456);
});
