import { expect, test } from "vitest";
import { createPace, type PlannedStrike, planStrikes } from "./fault-schedule.ts";

/** Which of `runs` have begun, in order. */
function load(runs: number, strikes: readonly PlannedStrike[], ahead = runs) {
  const begun: number[] = [];
  const pace = createPace(runs, ahead, strikes);
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

test("a fault that was kept waiting until all that might begin was over is given runs, one after the other", async () => {
  const [kill] = planStrikes(1, 1, new Set(["kill"]));
  if (!kill) throw new Error("no strike was planned");
  const { begun, pace, settle } = load(
    20,
    [
      { ...kill, dueAt: 0.2 },
      { ...kill, dueAt: 0.5 },
    ],
    3,
  );
  await settle();
  expect(begun).toHaveLength(7);
  for (const _ of begun) pace.runOver();
  for (const length of [8, 9]) {
    pace.starved();
    pace.starved();
    await settle();
    expect(begun).toHaveLength(length);
    pace.runOver();
  }
  pace.struck();
  await settle();
  expect(begun).toHaveLength(13);
});

test("Redis' clock jumps forth and back by turns, once each way at least, and no other fault does", () => {
  const faults = new Set(["kill", "clock"] as const);
  const jumpsOf = (kills: number) => planStrikes(1, kills, faults).filter(({ kind }) => kind === "clock");
  expect(jumpsOf(40).map(({ jump }) => Math.sign(jump))).toEqual([1, -1, 1, -1]);
  expect(jumpsOf(1)).toHaveLength(2);
  for (const { jump } of jumpsOf(400)) {
    expect(Math.abs(jump)).toBeGreaterThanOrEqual(0.1);
    expect(Math.abs(jump)).toBeLessThan(1.5);
  }
  expect(planStrikes(1, 4, faults).filter(({ kind, jump }) => kind === "kill" && jump !== 0)).toEqual([]);
});

test("a load without faults begins at once", async () => {
  const { begun, settle } = load(5, []);
  await settle();
  expect(begun).toEqual([0, 1, 2, 3, 4]);
});
