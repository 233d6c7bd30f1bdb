/** Two budgets merged: of tokens and of USD alike, whoever has named the lower cap. */
import { expect, test } from "vitest";
import { isCappedInUsd, narrowedBudgets } from "../../../../src/shared/protocol/limits.ts";

test.each(["agent", "parent"] as const)("each cap of the budget of the %s is the lower one", (of) => {
  const wide = { max_total_tokens: 900, max_cost_usd: 9 };
  const narrow = { max_total_tokens: 100, max_cost_usd: 1 };
  expect(narrowedBudgets({ [of]: wide }, { [of]: narrow })).toEqual({ [of]: narrow });
  expect(narrowedBudgets({ [of]: narrow }, { [of]: wide })).toEqual({ [of]: narrow });
  expect(narrowedBudgets({ [of]: { max_cost_usd: 1 } }, { [of]: { max_total_tokens: 5 } })).toEqual({
    [of]: { max_total_tokens: 5, max_cost_usd: 1 },
  });
  expect(narrowedBudgets({ [of]: wide }, {})).toEqual({ [of]: wide });
  expect(narrowedBudgets({}, { [of]: wide })).toEqual({ [of]: wide });
});

test("a cap in USD binds an agent wherever it stands", () => {
  expect(isCappedInUsd({ max_turns: 3 }, { agent: { max_total_tokens: 5 } })).toBe(false);
  expect(isCappedInUsd({ max_cost_usd: 1 })).toBe(true);
  expect(isCappedInUsd({}, { parent: { max_cost_usd: 1 } })).toBe(true);
  expect(isCappedInUsd({}, { tenant: { max_cost_usd: 1, window_ms: 1_000 } })).toBe(true);
});
