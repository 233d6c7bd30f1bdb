import { expect, test } from "vitest";
import { createWakeLine } from "../../../src/worker/wake-line.ts";
import { handClock } from "../../helpers/hand-clock.ts";

test("a few wakes rest as long as they would without others", () => {
  const clock = handClock();
  const line = createWakeLine(clock);
  expect([line(200, 2), line(100, 2), line(10_000, 2), line(100, 2)]).toEqual([200, 100, 10_000, 100]);
});

test.each([1, 4])("the wakes that %d workers return come back at a hundred a second", (workers) => {
  const clock = handClock();
  const lines = Array.from({ length: workers }, () => createWakeLine(clock));
  const delays = Array.from({ length: 1_200 }, (_, i) => lines[i % workers]?.(100, workers) ?? 0);
  expect(delays.filter((ms) => ms <= 2_000).length).toBe(200);
  expect(delays.filter((ms) => ms > 9_000 && ms <= 10_000).length).toBe(100);
});

test("a line that has come back delays no later wake", () => {
  const clock = handClock();
  const line = createWakeLine(clock);
  for (let i = 0; i < 500; i++) line(100, 1);
  clock.advance(4_000);
  expect(line(100, 1)).toBe(1_010);
  clock.advance(3_000);
  expect(line(100, 1)).toBe(100);
});

test("no wake rests longer than five minutes, and the line does not grow beyond them", () => {
  const clock = handClock();
  const line = createWakeLine(clock);
  for (let i = 0; i < 40_000; i++) line(100, 1);
  expect(line(100, 1)).toBe(300_000);
  clock.advance(299_000);
  expect(line(100, 1)).toBe(1_010);
});
