/** Guarantee: a clock that is off by whole hours is said to be, though the measured difference misses them by some milliseconds. */
import { expect, test } from "vitest";
import { findingsIn } from "../../../../src/cli/doctor/checks.ts";
import { facts, NOW_MS } from "./samples.ts";

const TWO_HOURS_MS = 7_200_000;

test.each([
  [TWO_HOURS_MS - 4, "2 h ahead"],
  [-TWO_HOURS_MS + 4, "2 h behind"],
  [5_300, "5 s ahead"],
])("a host whose clock is off by %i ms is %s", (ms, said) => {
  const [found] = findingsIn(facts({ hostNowMs: NOW_MS + ms, host: "far" }));
  expect(found).toMatchObject({ check: "clock_skew", names: [`far ${said}`] });
});
