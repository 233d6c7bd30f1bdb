import { expect, test } from "vitest";
import { returnWake } from "../../../../src/worker/run/claim.ts";
import type { RunContext } from "../../../../src/worker/run/context.ts";

const among = (workers: number, random = 0) =>
  ({ random: () => random, workers: { list: async () => Array(workers) } }) as unknown as RunContext;

async function delayMs(context: RunContext, taken: number): Promise<number> {
  const end = await returnWake(context, "newer", taken);
  if (end.status !== "returned") throw new Error(end.status);
  return end.delayMs;
}

test.each([
  [1, 100, 200],
  [2, 200, 400],
  [4, 800, 1_600],
  [7, 5_000, 10_000],
  [50, 5_000, 10_000],
])("a wake that the only worker took for the %d. time rests for %d to %d ms", async (taken, least, most) => {
  expect(await delayMs(among(1, 0), taken)).toBe(least);
  expect(await delayMs(among(1, 0.999_999), taken)).toBeCloseTo(most, 0);
});

test("it visits as many workers as live before it rests, and then again", async () => {
  const delays = await Promise.all([1, 2, 3, 4, 5, 6, 7].map((taken) => delayMs(among(3), taken)));
  expect(delays).toEqual([0, 0, 100, 0, 0, 200, 0]);
  expect(await delayMs(among(0), 1)).toBe(100);
});

test("after a hundred rounds it is dropped", async () => {
  const ends = [200, 201, 202].map((taken) => returnWake(among(2), "newer", taken));
  expect((await Promise.all(ends)).map(({ status }) => status)).toEqual(["returned", "returned", "passed"]);
});
