import { expect, test } from "vitest";
import { LoopTime } from "../../../src/shared/clock.ts";
import { createManualClock } from "../cli/manual-clock.ts";

test("it stands still while nothing waits, and one timer serves all that does", () => {
  const clock = createManualClock();
  const time = new LoopTime(clock);
  clock.advance(5_000);
  expect([time.nowMs, clock.pending]).toEqual([0, 0]);
  const due: string[] = [];
  time.after(100, () => due.push("early"));
  const given = time.after(150, () => due.push("given up"));
  time.after(200, () => due.push("late"));
  expect(clock.pending).toBe(1);
  given.cancel();
  clock.advance(120);
  expect(due).toEqual(["early"]);
  clock.advance(100);
  expect([due, clock.pending]).toEqual([["early", "late"], 0]);
  const { nowMs } = time;
  clock.advance(5_000);
  expect(time.nowMs).toBe(nowMs);
});

test("a stall counts as a tenth of a second, however long it was, once what came meanwhile has been read", () => {
  let now = 0;
  const due: (() => void)[] = [];
  const time = new LoopTime({
    ...createManualClock(),
    monotonicMs: () => now,
    timeout(_ms, callback) {
      due.push(callback);
      return { cancel: () => {} };
    },
  });
  time.after(1_000, () => {});
  now = 60_000;
  due.shift()?.();
  expect(time.nowMs).toBe(0);
  // The event loop reads what has come, and then calls the second timer.
  due.shift()?.();
  expect(time.nowMs).toBe(100);
});
