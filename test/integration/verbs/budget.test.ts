/** Guarantee: a call that may begin is told how much of its budgets is used then, by tokens or money, whichever is more. */
import { expect, test } from "vitest";
import { createBudgetBook } from "../../../src/shared/redis/budget.ts";
import { verbRig } from "./rig.ts";

function bookOf() {
  const { redis, keys, store } = verbRig();
  return createBudgetBook(redis, keys, store.timing);
}

test.for([
  ["tokens", { maxTokens: 1_000 }, 0.25],
  ["money", { maxMicroUsd: 10_000_000 }, 0.1],
  ["tokens more than money", { maxTokens: 1_000, maxMicroUsd: 10_000_000 }, 0.25],
  ["money more than tokens", { maxTokens: 10_000, maxMicroUsd: 10_000_000 }, 0.1],
  ["neither", {}, 0],
] as const)("the share of a budget that is used: %s", async ([, caps, used]) => {
  const book = bookOf();
  const amount = { tokens: 250, costUsd: 1 };
  const budgets = [{ name: "team", ...caps }];
  expect(await book.reserve(budgets, "call.1", amount, false)).toMatchObject({ status: "granted", used });
  // A call that is reserved again takes nothing more.
  expect(await book.reserve(budgets, "call.1", amount, false)).toMatchObject({ status: "granted", used });
  expect(await book.reserve(budgets, "call.2", amount, false)).toMatchObject({ used: 2 * used });
});
