import { expect, test } from "vitest";
import {
  formatAge,
  formatCompact,
  formatCount,
  formatDuration,
  formatLength,
  formatPlural,
  formatUsd,
} from "../../../../src/cli/terminal/numbers.ts";

test("counts are grouped, and compact ones never take more than seven characters", () => {
  expect(formatCount(1_234_567)).toBe("1,234,567");
  expect(formatCompact(999_999)).toBe("999,999");
  expect(formatCompact(1_000_000)).toBe("1.00M");
  expect(formatCompact(123_456_789)).toBe("123.46M");
});

test.each([
  [0, "$0"],
  [0.00001, "$0.0001"],
  [0.01234, "$0.0123"],
  [0.99999, "$1.00"],
  [1234.5, "$1,234.50"],
])("%d USD is %s", (usd, text) => {
  expect(formatUsd(usd)).toBe(text);
});

test.each([
  [0, "0.0 s"],
  [1_250, "1.3 s"],
  [59_949, "59.9 s"],
  [59_960, "1 min 0 s"],
  [125_000, "2 min 5 s"],
])("%i ms took %s", (ms, text) => {
  expect(formatDuration(ms)).toBe(text);
});

test.each([
  [-5, "0s"],
  [59_999, "59s"],
  [65_000, "1m05s"],
  [3_725_000, "1h02m"],
])("an age of %i ms is %s", (ms, text) => {
  expect(formatAge(ms)).toBe(text);
});

test("one is singular", () => {
  expect([0, 1, 2].map((count) => formatPlural(count, "turn"))).toEqual(["0 turns", "1 turn", "2 turns"]);
});

test.each([
  [2_592_000_000, "30d"],
  [90_000_000, "25h"],
  [86_400_000, "24h"],
  [5_400_000, "1h30m"],
  [60_000, "1m"],
  [90_000, "1m30s"],
  [500, "0s"],
])("a time of %i ms that was asked for is %s", (ms, text) => {
  expect(formatLength(ms)).toBe(text);
});
