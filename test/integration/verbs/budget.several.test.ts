/** Guarantee: where several budgets bind a call, the one that is used most says how much is used, wherever it stands. */
import { expect, test } from "vitest";
import { createBudgetBook } from "../../../src/shared/redis/budget.ts";
import { verbRig } from "./rig.ts";

const wide = { name: "wide", of: "agent" as const, maxTokens: 10_000 };
const narrow = { name: "narrow", of: "parent" as const, maxTokens: 1_000 };

test.each([
  ["the first", [narrow, wide]],
  ["the last", [wide, narrow]],
] as const)("the budget that is used most counts where it is %s", async (_, budgets) => {
  const { redis, keys, store } = verbRig();
  const book = createBudgetBook(redis, keys, store.timing);
  const amount = { tokens: 900, costUsd: 0 };
  expect(await book.reserve(budgets, "call.1", amount, false)).toEqual({ status: "granted", used: 0.9 });
});
