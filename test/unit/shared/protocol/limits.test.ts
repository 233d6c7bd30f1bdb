import { expect, test } from "vitest";
import {
  AlertThresholds,
  CEILING,
  isCappedInUsd,
  Limits,
  LimitsInput,
  narrowedBudgets,
  narrowLimits,
  SPAWN_LIMITS,
  TASK_LIMITS,
} from "../../../../src/shared/protocol/limits.ts";

const FIELDS = Object.keys(CEILING) as (keyof typeof CEILING)[];

test.for(FIELDS)(
  "a wish for %s may be its ceiling, and neither more, nor 0, negative, NaN, endless or text",
  (field) => {
    expect(LimitsInput.safeParse({ [field]: CEILING[field] }).success).toBe(true);
    for (const wrong of [CEILING[field] + 1, 0, -1, Number.NaN, Number.POSITIVE_INFINITY, "5", null])
      expect(LimitsInput.safeParse({ [field]: wrong }).success, String(wrong)).toBe(false);
  },
);

test.for(FIELDS.filter((field) => field !== "max_cost_usd"))("%s is a whole number", (field) => {
  expect(LimitsInput.safeParse({ [field]: 1.5 }).success).toBe(false);
});

test("a cost may be a fraction of a dollar", () => {
  expect(LimitsInput.safeParse({ max_cost_usd: 0.01 }).success).toBe(true);
});

test("an unknown limit is refused, not ignored", () => {
  expect(LimitsInput.safeParse({ max_turn: 5 }).success).toBe(false);
  expect(AlertThresholds.safeParse({ turn: 5 }).success).toBe(false);
});

test("the standard limits are limits: 20 turns for a spawn, 30 for a task, otherwise the same", () => {
  expect(Limits.parse(SPAWN_LIMITS)).toEqual({
    max_turns: 20,
    max_tokens: 8_000,
    max_duration_ms: 1_800_000,
  });
  expect(TASK_LIMITS).toEqual({ ...SPAWN_LIMITS, max_turns: 30 });
});

test("a wish narrows what it names and leaves the rest", () => {
  expect(narrowLimits(SPAWN_LIMITS, { max_turns: 5, max_cost_usd: 2 })).toEqual({
    status: "narrowed",
    limits: { ...SPAWN_LIMITS, max_turns: 5, max_cost_usd: 2 },
  });
  expect(narrowLimits(SPAWN_LIMITS, {})).toEqual({ status: "narrowed", limits: SPAWN_LIMITS });
  expect(narrowLimits(SPAWN_LIMITS, { max_turns: undefined })).toEqual({
    status: "narrowed",
    limits: SPAWN_LIMITS,
  });
});

test("a wish for as much as allowed is granted, for more it is refused by name", () => {
  expect(narrowLimits(SPAWN_LIMITS, { max_turns: 20 }).status).toBe("narrowed");
  expect(narrowLimits(SPAWN_LIMITS, { max_tokens: 100, max_turns: 21 })).toEqual({
    status: "refused",
    field: "max_turns",
    requested: 21,
    allowed: 20,
  });
});

test("where the base sets no limit the ceiling does", () => {
  const wished = CEILING.max_total_tokens + 1;
  expect(narrowLimits(SPAWN_LIMITS, { max_total_tokens: wished })).toMatchObject({
    status: "refused",
    allowed: CEILING.max_total_tokens,
  });
});

test("narrowing changes neither the base nor the wish", () => {
  const [base, wish] = [Object.freeze({ ...SPAWN_LIMITS }), Object.freeze({ max_turns: 1 })];
  const narrowed = narrowLimits(base, wish);
  expect(narrowed.status === "narrowed" && narrowed.limits).not.toBe(base);
});

test("of two budgets each cap is the lower one, and a tenant's is the operator's", () => {
  const rolling = (max_cost_usd: number) => ({ max_cost_usd, window_ms: 60_000 });
  const narrowed = narrowedBudgets(
    { agent: { max_cost_usd: 1 }, parent: { max_total_tokens: 10 }, tenant: rolling(2) },
    { agent: { max_cost_usd: 3, max_total_tokens: 5 }, parent: { max_total_tokens: 4 }, tenant: rolling(9) },
  );
  expect(narrowed).toEqual({
    agent: { max_cost_usd: 1, max_total_tokens: 5 },
    parent: { max_total_tokens: 4 },
    tenant: rolling(2),
  });
  expect(narrowedBudgets({}, { tenant: rolling(9) })).toEqual({ tenant: rolling(9) });
});

test.for(["agent", "parent", "tenant"] as const)("a cap in USD of %s binds an agent", (of) => {
  expect(isCappedInUsd({}, { [of]: { max_total_tokens: 1 } })).toBe(false);
  expect(isCappedInUsd({}, { [of]: { max_cost_usd: 1, window_ms: 1_000 } })).toBe(true);
});
