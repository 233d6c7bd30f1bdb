import { expect, test } from "vitest";
import { formatLength } from "../../../../src/cli/terminal/numbers.ts";

test.each([
  [86_400_000, "24h"],
  [5_400_000, "1h30m"],
  [60_000, "1m"],
  [90_000, "1m30s"],
  [500, "0s"],
])("a time of %i ms that was asked for is %s", (ms, text) => {
  expect(formatLength(ms)).toBe(text);
});
