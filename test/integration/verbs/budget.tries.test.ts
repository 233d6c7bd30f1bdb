/** Guarantee: a budget counts each try of a call, also if the first is settled only after the second was reserved. */
import { expect, test } from "vitest";
import { createBudgetBook, readSpent } from "../../../src/shared/redis/budget.ts";
import { NextPurchase } from "../../../src/worker/run/purchase.ts";
import { verbRig } from "./rig.ts";

const budget = { name: "tries", of: "agent" as const, maxTokens: 1_000 };
const cost = (tokens: number) => ({ tokens, costUsd: 0 });

test("a try that is settled late leaves the next one what it costs", async () => {
  const { redis, keys, store } = verbRig();
  const book = createBudgetBook(redis, keys, store.timing);
  const purchase = new NextPurchase("sa-1", "claim", 1);
  const reserve = async () => {
    const reservation = purchase.beginReservation({ message: 1 });
    expect(purchase.reservation).toBe(reservation);
    await book.reserve([budget], reservation, cost(50), false);
    return reservation;
  };
  const first = await reserve();
  const second = await reserve();
  expect(await readSpent(redis, keys, budget)).toEqual(cost(100));
  await book.settle([budget], first, cost(30));
  await book.settle([budget], second, cost(40));
  expect(await readSpent(redis, keys, budget)).toEqual(cost(70));
});
