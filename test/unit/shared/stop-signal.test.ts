import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { onAbort, StopSignal, unlessAborted, whenAborted } from "../../../src/shared/stop-signal.ts";

test("who listens to a signal is told once when it aborts, at once where it has, and not after taking that back", () => {
  const told: string[] = [];
  const stop = new AbortController();
  onAbort(stop.signal, () => told.push("stays"));
  const forget = onAbort(stop.signal, () => told.push("goes"));
  forget();
  expect(told).toEqual([]);
  stop.abort();
  expect(told).toEqual(["stays"]);
  onAbort(stop.signal, () => told.push("late"))();
  expect(told).toEqual(["stays", "late"]);
  onAbort(undefined, () => told.push("never"))();
  expect(told).toEqual(["stays", "late"]);
});

test("however many wait for a signal, it has one listener, and none once all have taken that back", () => {
  const told: number[] = [];
  const { signal } = new AbortController();
  const all = Array.from({ length: 30 }, (_, i) => onAbort(signal, () => told.push(i)));
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  for (const forget of [...all, ...all]) forget();
  expect(getEventListeners(signal, "abort")).toEqual([]);
  const again = onAbort(signal, () => told.push(-1));
  for (const forget of all) forget();
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
  again();
  expect(told).toEqual([]);
});

test("what takes its waiting back while a signal aborts is not told any more", () => {
  const told: string[] = [];
  const stop = new AbortController();
  let forget = (): void => {};
  onAbort(stop.signal, () => forget());
  forget = onAbort(stop.signal, () => told.push("goes"));
  onAbort(stop.signal, () => told.push("stays"));
  stop.abort();
  expect(told).toEqual(["stays"]);
});

test("waiting for a signal that has aborted ends at once", async () => {
  await whenAborted(AbortSignal.abort());
});

test("a stop signal tells in order, once, and its abort signal follows it", () => {
  const told: string[] = [];
  const stop = new StopSignal();
  stop.onStop(() => told.push("first"));
  const forget = stop.onStop(() => told.push("goes"));
  stop.onStop(() => told.push("last"));
  forget();
  const { signal } = stop;
  stop.stop();
  stop.stop();
  expect(told).toEqual(["first", "last"]);
  expect(signal.aborted).toBe(true);
  expect(new StopSignal().signal.aborted).toBe(false);
  stop.onStop(() => told.push("late"));
  expect(told).toEqual(["first", "last", "late"]);
});

test("work that a signal may end has the result of what comes first, and leaves no listener", async () => {
  const stop = new AbortController();
  const { signal } = stop;
  expect(await unlessAborted(signal, Promise.resolve("done"))).toBe("done");
  await expect(unlessAborted(signal, Promise.reject(new Error("failed")))).rejects.toThrow("failed");
  expect(getEventListeners(signal, "abort")).toEqual([]);
  const underWay = unlessAborted(signal, new Promise(() => {}));
  stop.abort(new Error("interrupted"));
  await expect(underWay).rejects.toBe(signal.reason);
  await expect(unlessAborted(signal, new Promise(() => {}))).rejects.toBe(signal.reason);
});
