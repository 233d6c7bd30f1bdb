import { expect, test } from "vitest";
import { createPace, type PlannedStrike, planStrikes } from "./fault-schedule.ts";

/** Which of `runs` have begun, in order. */
function load(runs: number, strikes: readonly PlannedStrike[]) {
  const begun: number[] = [];
  const pace = createPace(runs, runs, strikes);
  for (let run = 0; run < runs; run++) void pace.mayBegin(run).then(() => begun.push(run));
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  return { begun, pace, settle };
}

test("a fault that comes when all is over finds runs that were kept back for it, one after the other", async () => {
  const { begun, pace, settle } = load(20, planStrikes(1, 1, new Set(["kill"])));
  await settle();
  expect(begun).toHaveLength(18);
  pace.starved();
  await settle();
  expect(begun, "others are under way").toHaveLength(18);
  for (const _ of begun) pace.runOver();
  pace.starved();
  pace.starved();
  await settle();
  expect(begun).toHaveLength(19);
  pace.struck();
  await settle();
  expect(begun).toHaveLength(20);
});

test("a load without faults begins at once", async () => {
  const { begun, settle } = load(5, []);
  await settle();
  expect(begun).toEqual([0, 1, 2, 3, 4]);
});
