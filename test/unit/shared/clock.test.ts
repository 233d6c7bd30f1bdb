import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { CoarseTimers, systemClock, within } from "../../../src/shared/clock.ts";
import { handClock } from "../../helpers/hand-clock.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Whether a promise has settled, once everything that is ready has run. */
async function isSettled(promise: Promise<void>): Promise<boolean> {
  let settled = false;
  void promise.then(() => {
    settled = true;
  });
  await vi.advanceTimersByTimeAsync(0);
  return settled;
}

test("a sleep lasts its time and not less", async () => {
  const sleep = systemClock.sleep(1_000);
  await vi.advanceTimersByTimeAsync(999);
  expect(await isSettled(sleep)).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(await isSettled(sleep)).toBe(true);
});

test("a sleep ends without error when its signal aborts, and leaves no timer and no listener behind", async () => {
  const stop = new AbortController();
  const removed = vi.spyOn(stop.signal, "removeEventListener");
  const sleep = systemClock.sleep(60_000, stop.signal);
  expect(vi.getTimerCount()).toBe(1);
  stop.abort();
  await sleep;
  expect(vi.getTimerCount()).toBe(0);
  expect(removed).toHaveBeenCalledOnce();
});

test("a sleep that ran its time leaves no listener on its signal", async () => {
  const stop = new AbortController();
  const removed = vi.spyOn(stop.signal, "removeEventListener");
  const sleep = systemClock.sleep(10, stop.signal);
  await vi.advanceTimersByTimeAsync(10);
  await sleep;
  expect(removed).toHaveBeenCalledOnce();
});

test("a sleep on a signal that has aborted already takes no time and no timer", async () => {
  await systemClock.sleep(60_000, AbortSignal.abort());
  expect(vi.getTimerCount()).toBe(0);
});

test("a timeout calls once, unless it is cancelled, which may be done twice and late", () => {
  const [called, cancelled] = [vi.fn(), vi.fn()];
  const first = systemClock.timeout(10, called);
  const second = systemClock.timeout(10, cancelled);
  second.cancel();
  second.cancel();
  vi.advanceTimersByTime(100);
  first.cancel();
  expect(called).toHaveBeenCalledOnce();
  expect(cancelled).not.toHaveBeenCalled();
});

test("a wait beyond the longest timer of the platform does not fire at once", async () => {
  const called = vi.fn();
  const timeout = systemClock.timeout(2 ** 31, called);
  const sleep = systemClock.sleep(Number.MAX_SAFE_INTEGER);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(called).not.toHaveBeenCalled();
  expect(await isSettled(sleep)).toBe(false);
  timeout.cancel();
});

test("the wall clock is epoch time, the monotonic one only moves forward", () => {
  vi.setSystemTime(1_795_240_000_000);
  expect(systemClock.now()).toBe(1_795_240_000_000);
  const before = systemClock.monotonicMs();
  vi.advanceTimersByTime(5);
  vi.setSystemTime(0);
  expect(systemClock.monotonicMs()).toBeGreaterThanOrEqual(before);
});

test("a time limit leaves no timer behind when its work is over, well or not", async () => {
  const clock = handClock();
  expect(await within(clock, 5_000, Promise.resolve("done"))).toBe("done");
  await expect(within(clock, 5_000, Promise.reject(new Error("broken")))).rejects.toThrow("broken");
  await vi.advanceTimersByTimeAsync(0);
  expect(clock.pending).toBe(0);
});

test("time limits that share a timer leave none, and call nobody, once they are stopped", () => {
  const clock = handClock();
  const timers = new CoarseTimers(clock);
  const called: string[] = [];
  timers.timeout(100, () => called.push("late"));
  timers.stop();
  expect(clock.pending).toBe(0);
  clock.advance(200);
  expect(called).toEqual([]);
});
