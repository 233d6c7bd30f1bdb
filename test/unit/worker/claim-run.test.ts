import { expect, test } from "vitest";
import { returned } from "../../../src/worker/claim-run.ts";

const delayOf = (taken: number, random: number) => {
  const end = returned({ random: () => random }, "newer", taken);
  return end.status === "returned" ? end.delayMs : end.status;
};

test("a returned wake waits longer each time, up to ten seconds, half of it left to chance", () => {
  expect([1, 2, 3, 4, 5, 6, 7, 100].map((taken) => delayOf(taken, 0))).toEqual([
    100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000,
  ]);
  expect([1, 7].map((taken) => delayOf(taken, 0.999))).toEqual([
    expect.closeTo(199.9),
    expect.closeTo(9_995),
  ]);
});

test("a wake that was returned a hundred times is dropped", () => {
  expect([100, 101].map((taken) => returned({ random: () => 0 }, "newer", taken).status)).toEqual([
    "returned",
    "passed",
  ]);
});
