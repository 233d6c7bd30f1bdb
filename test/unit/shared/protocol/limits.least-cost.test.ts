/** A cap in USD is at least what a budget counts, at every door: a smaller one would be rounded to nothing. */
import { expect, test } from "vitest";
import { loadConfig } from "../../../../src/shared/config.ts";
import { wordingOf } from "../../../../src/shared/problem-text.ts";
import { Budgets, LimitsInput } from "../../../../src/shared/protocol/limits.ts";

test("a millionth of a dollar is a cap, less is refused with the smallest one", () => {
  const capped = (max_cost_usd: number) =>
    [
      LimitsInput.safeParse({ max_cost_usd }, { error: wordingOf }),
      Budgets.safeParse({ agent: { max_cost_usd } }, { error: wordingOf }),
      Budgets.safeParse({ tenant: { max_cost_usd, window_ms: 1_000 } }, { error: wordingOf }),
    ].map(({ error }) => error?.issues.map(({ message }) => message));
  expect(capped(0.000001)).toEqual([undefined, undefined, undefined]);
  const refused = ["must be at least 0.000001"];
  expect(capped(0.0000009)).toEqual([refused, refused, refused]);
  const load = (text: string) => () => loadConfig({ SUBAGENT_BUDGET_AGENT_USD: text });
  expect(load("0.000001")().budgets.agent).toEqual({ max_cost_usd: 0.000001 });
  expect(load("0.0000009")).toThrow(/a number from 0\.000001 to 100000/);
});
