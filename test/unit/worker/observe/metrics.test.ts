import { expect, test } from "vitest";
import { BoundedNames } from "../../../../src/worker/observe/metrics.ts";

test("names that models choose are fifty labels at most, however many there are; the rest is other", () => {
  const names = new BoundedNames();
  const labels = Array.from({ length: 500 }, (_, n) => names.bounded(`tool_${n}`));
  expect(labels.slice(0, 50)).toEqual(Array.from({ length: 50 }, (_, n) => `tool_${n}`));
  expect(new Set(labels.slice(50))).toEqual(new Set(["other"]));
  expect(names.bounded("tool_7")).toBe("tool_7");
});
