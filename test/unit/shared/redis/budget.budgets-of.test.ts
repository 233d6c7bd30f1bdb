/** Which budgets bind an agent, under which names, and what they leave to the millionth of a USD. */
import { expect, test } from "vitest";
import { budgetsOf } from "../../../../src/shared/redis/budget.ts";

const address = { tenant: "acme", parentId: "planner", uid: "u1" };

test("an agent is bound by its own budget, by its parent's and by its tenant's, each with its own caps", () => {
  expect(
    budgetsOf(address, {
      agent: { max_total_tokens: 1 },
      parent: { max_total_tokens: 2, max_cost_usd: 3 },
      tenant: { max_cost_usd: 4, window_ms: 5_000 },
    }),
  ).toEqual([
    { name: "agent/acme/planner/u1", of: "agent", maxTokens: 1 },
    { name: "parent/acme/planner", of: "parent", maxTokens: 2, maxMicroUsd: 3_000_000 },
    { name: "tenant/acme/5000", of: "tenant", maxMicroUsd: 4_000_000, windowMs: 5_000 },
  ]);
  expect(budgetsOf(address, {})).toEqual([]);
});

test.each([
  [1.1, 1_100_000],
  [4.35, 4_350_000],
  [0.000_000_6, 1],
  [0.000_000_4, 0],
])("a budget of %d USD is %d millionths", (max_cost_usd, maxMicroUsd) => {
  expect(budgetsOf(address, { agent: { max_cost_usd } })).toMatchObject([{ maxMicroUsd }]);
});
