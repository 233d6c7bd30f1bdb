import { expect, test } from "vitest";
import { formatSpan, sentence } from "../../../../src/cli/terminal/numbers.ts";

test("a span of exactly one unit is called by it", () => {
  expect([86_400_000, 3_600_000, 60_000, 1_000].map(formatSpan)).toEqual(["1 d", "1 h", "1 min", "1 s"]);
  expect(formatSpan(59_999)).toBe("59 s");
});

test("a noun with an irregular plural has it", () => {
  const say = (count: number) => sentence("#(entry|entries) (was|were) refused by #worker", count);
  expect(say(1)).toBe("1 entry was refused by 1 worker");
  expect(say(2)).toBe("2 entries were refused by 2 workers");
});
