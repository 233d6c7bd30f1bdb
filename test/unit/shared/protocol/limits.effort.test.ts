import { expect, test } from "vitest";
import { leastEffort, paceFor } from "../../../../src/shared/protocol/limits.ts";

test.each([
  ["claude-opus-5-5", { effort: "xhigh", task_budget: 50_000 }, { effort: "xhigh", task_budget: 50_000 }],
  ["somebody-elses-model", { effort: "max", task_budget: 50_000 }, { effort: "max", task_budget: 50_000 }],
  ["claude-opus-4-6", { effort: "xhigh", task_budget: 50_000 }, { effort: "high" }],
  ["claude-sonnet-4-6", { effort: "max" }, { effort: "max" }],
  ["claude-opus-4-5-20251101", { effort: "max" }, { effort: "high" }],
  ["claude-sonnet-5", { effort: "xhigh", task_budget: 50_000 }, { effort: "xhigh" }],
  ["claude-haiku-4-5", { effort: "low", task_budget: 50_000 }, {}],
  ["constructor", { effort: "low" }, { effort: "low" }],
] as const)("%s takes of %j: %j", (model, asked, taken) => {
  expect(paceFor(model, asked)).toEqual(taken);
});

test("the lesser of two efforts is the one further down; one that is absent is no bound", () => {
  expect(leastEffort("xhigh", "high")).toBe("high");
  expect(leastEffort("low", "max")).toBe("low");
  expect(leastEffort(undefined, "max")).toBe("max");
  expect(leastEffort(undefined, undefined)).toBeUndefined();
});
