/** Guarantee: what was unregistered or cancelled is not called any more, also if that happens amid the calls. */
import { expect, test } from "vitest";
import { CoarseTimers } from "../../../src/shared/clock.ts";
import { StopSignal } from "../../../src/shared/stop-signal.ts";
import { handClock } from "../../helpers/hand-clock.ts";

test("a function that another one unregisters during the stop is not called", () => {
  const called: string[] = [];
  const stop = new StopSignal();
  stop.onStop(() => {
    called.push("first");
    forget();
  });
  const forget = stop.onStop(() => called.push("second"));
  stop.onStop(() => called.push("third"));
  stop.stop();
  expect(called).toEqual(["first", "third"]);
});

test("a limit that another one cancels at the same moment does not call back", () => {
  const called: string[] = [];
  const clock = handClock();
  const timers = new CoarseTimers(clock);
  timers.timeout(10, () => {
    called.push("first");
    second.cancel();
  });
  const second = timers.timeout(10, () => called.push("second"));
  clock.advance(10);
  expect(called).toEqual(["first"]);
  expect(clock.pending).toBe(0);
});
