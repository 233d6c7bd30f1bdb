/**
 * Guarantee: a budget sells what is left of it to the last token or cent, and a call that may begin is told how much of its
 * budgets is used then, by tokens or money, whichever is more.
 */
import { expect, test } from "vitest";
import { budgetsOf, createBudgetBook, readSpent } from "../../../src/shared/redis/budget.ts";
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
  const budgets = [{ name: "team", of: "tenant" as const, ...caps }];
  expect(await book.reserve(budgets, "call.1", amount, false)).toMatchObject({ status: "granted", used });
  // A call that is reserved again takes nothing more.
  expect(await book.reserve(budgets, "call.1", amount, false)).toMatchObject({ status: "granted", used });
  expect(await book.reserve(budgets, "call.2", amount, false)).toMatchObject({ used: 2 * used });
});

test.for([
  ["tokens", { maxTokens: 500 }, "max_total_tokens"],
  ["money", { maxMicroUsd: 2_000_000 }, "max_cost"],
] as const)(
  "a budget of %s is sold to its end, and beyond it only to a call that must be made",
  async ([, caps, over]) => {
    const book = bookOf();
    const reserve = (name: string, isForced = false) =>
      book.reserve(
        [{ name: "team", of: "tenant" as const, ...caps }],
        name,
        { tokens: 250, costUsd: 1 },
        isForced,
      );
    expect(await reserve("call.1")).toEqual({ status: "granted", used: 0.5 });
    expect(await reserve("call.2")).toEqual({ status: "granted", used: 1 });
    expect(await reserve("call.3")).toEqual({
      status: "refused",
      over,
      budget: { name: "team", of: "tenant", ...caps },
    });
    expect(await reserve("call.3", true)).toEqual({ status: "granted", used: 1.5 });
  },
);

test("a budget of less than a millionth of a USD says how far a call that must be made goes beyond it", async () => {
  const amount = { tokens: 1, costUsd: 1 };
  const made = await bookOf().reserve(
    [{ name: "team", of: "tenant" as const, maxMicroUsd: 0 }],
    "call.1",
    amount,
    true,
  );
  expect(made).toEqual({ status: "granted", used: 1_000 });
});

test("a rolling window has sixty parts; what was spent before them is neither counted nor kept", async () => {
  const { redis, keys, store, redisNow } = verbRig();
  // It is half past the hundredth part, whenever the test runs.
  const team = {
    name: "team",
    of: "tenant" as const,
    windowMs: Math.round((60 * (await redisNow())) / 100.5),
    maxTokens: 100,
  };
  await redis.hset(keys.budget("team"), { "t/40": 7, "t/41": 5 });
  expect(await readSpent(redis, keys, team)).toEqual({ tokens: 5, costUsd: 0 });
  const book = createBudgetBook(redis, keys, store.timing);
  await book.reserve([team], "call.1", { tokens: 5, costUsd: 0 }, false);
  expect(await redis.hgetall(keys.budget("team"))).toEqual({ "t/41": "5", "t/100": "5", "c/100": "0" });
});

test("what a parent spends is no other tenant's, though its parent has the same id", async () => {
  const caps = { max_total_tokens: 100 };
  const budgets = { agent: caps, parent: caps, tenant: { ...caps, window_ms: 3_600_000 } };
  const boundIn = (tenant: string) => budgetsOf({ tenant, parentId: "p", uid: "u" }, budgets);
  const book = bookOf();
  const amount = { tokens: 100, costUsd: 0 };
  expect(await book.reserve(boundIn("one"), "call.1", amount, false)).toEqual({ status: "granted", used: 1 });
  expect(await book.reserve(boundIn("two"), "call.2", amount, false)).toEqual({ status: "granted", used: 1 });
});

test("a call that one of its budgets refuses takes nothing from the others", async () => {
  const { redis, keys, store } = verbRig();
  const [wide, narrow] = [
    { name: "wide", of: "agent" as const, maxTokens: 1_000 },
    { name: "narrow", of: "parent" as const, maxTokens: 100 },
  ];
  const book = createBudgetBook(redis, keys, store.timing);
  for (const budgets of [
    [wide, narrow],
    [narrow, wide],
  ]) {
    const answer = await book.reserve(budgets, "call.1", { tokens: 250, costUsd: 1 }, false);
    expect(answer).toEqual({ status: "refused", over: "max_total_tokens", budget: narrow });
    expect(await readSpent(redis, keys, wide)).toEqual({ tokens: 0, costUsd: 0 });
  }
});
