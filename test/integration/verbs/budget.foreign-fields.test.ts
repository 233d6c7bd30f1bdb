/** Guarantee: a budget may also have fields that this version does not know: they count nothing, and stay. */
import { expect, test } from "vitest";
import { createBudgetBook, readSpent } from "../../../src/shared/redis/budget.ts";
import { verbRig } from "./rig.ts";

test.for([
  ["rolling", 60_000],
  ["without a window", undefined],
] as const)(
  "a budget %s with fields of a newer version goes on counting its own, and keeps them",
  async ([, windowMs]) => {
    const { redis, keys, store } = verbRig();
    const book = createBudgetBook(redis, keys, store.timing);
    const budget = { name: "team", of: "tenant" as const, maxTokens: 1_000, windowMs };
    const newer = { "n/0": "7", "t/0/model": "7", "n/t/0": "7", version: "2" };
    await redis.hset(keys.budget(budget.name), newer);
    const reserve = (id: string) => book.reserve([budget], id, { tokens: 250, costUsd: 1 }, false);
    expect(await reserve("call.1")).toEqual({ status: "granted", used: 0.25 });
    expect(await reserve("call.2")).toEqual({ status: "granted", used: 0.5 });
    expect(await readSpent(redis, keys, budget)).toEqual({ tokens: 500, costUsd: 2 });
    expect(await redis.hgetall(keys.budget(budget.name))).toMatchObject(newer);
  },
);
