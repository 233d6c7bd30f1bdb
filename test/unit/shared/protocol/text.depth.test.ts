import { expect, test } from "vitest";
import { depthOf, JSON_MAX_DEPTH } from "../../../../src/shared/protocol/text.ts";

const nested = (levels: number): unknown => (levels === 0 ? 1 : { a: nested(levels - 1) });

test("depth counts objects and arrays on the longest way down", () => {
  expect(depthOf(1)).toBe(0);
  expect(depthOf(null)).toBe(0);
  expect(depthOf({})).toBe(1);
  expect(depthOf([[], { a: [1] }])).toBe(3);
  expect(depthOf({ a: 1, b: { c: {} } })).toBe(3);
});

test("32 levels are within the limit, 33 and 40 are not", () => {
  expect(depthOf(nested(JSON_MAX_DEPTH))).toBe(JSON_MAX_DEPTH);
  expect(depthOf(nested(JSON_MAX_DEPTH + 1))).toBeGreaterThan(JSON_MAX_DEPTH);
  expect(depthOf(nested(40))).toBeGreaterThan(JSON_MAX_DEPTH);
});

test("100,000 levels, and a value that contains itself, cost no more than 33", () => {
  let deep: unknown = 1;
  for (let i = 0; i < 100_000; i += 1) deep = [deep];
  expect(depthOf(deep)).toBe(JSON_MAX_DEPTH + 1);
  const circle: Record<string, unknown> = {};
  circle.self = circle;
  expect(depthOf(circle)).toBe(JSON_MAX_DEPTH + 1);
});

test("deep in one place is found among a thousand shallow ones", () => {
  const wide: unknown[] = Array.from({ length: 1_000 }, () => ({}));
  wide[500] = nested(40);
  expect(depthOf(wide)).toBeGreaterThan(JSON_MAX_DEPTH);
});
