import { expect, test } from "vitest";
import { interimWith } from "../../../../../src/worker/tools/builtin/parent.ts";

test("a message to the parent has at most 5,000 characters, however many units each takes", () => {
  expect(interimWith(undefined, "\u{1f600}".repeat(5_000))).toHaveLength(10_000);
  for (const long of ["x".repeat(5_001), "\u{1f600}".repeat(5_001)])
    expect(() => interimWith(undefined, long)).toThrow("longer than 5000 characters");
});
