import { expect, test } from "vitest";
import { callsPerSecond, judgeParallelism, type Level } from "../../../../src/cli/doctor/measure.ts";

const LEVELS = [1, 2, 4, 8];
/** What a backend shows that answers `places` calls at a time, each in `callMs`; `slow` calls of ten take three times as long. */
function backend(places: number, callMs: number, slow = 0): Level[] {
  return LEVELS.map((concurrency) => {
    const each = callMs * Math.max(1, concurrency / places);
    const callsMs = Array.from({ length: 20 }, (_, n) => (n % 10 < slow ? 3 * each : each));
    return { concurrency, callsMs };
  });
}

test.each([1, 2, 3, 4])("a backend that answers %i calls at a time is found to", (places) => {
  expect(judgeParallelism(backend(places, 200))).toEqual({ status: "serial", takes: places });
});

test("a backend that answers everything at once is parallel, also when it slows down a little or stumbles", () => {
  expect(judgeParallelism(backend(8, 200))).toEqual({ status: "parallel", takes: 8 });
  expect(judgeParallelism(backend(6, 200))).toEqual({ status: "parallel", takes: 8 });
  expect(judgeParallelism(backend(100, 200, 2))).toEqual({ status: "parallel", takes: 8 });
});

test("first calls that find everything cold do not make a backend look more parallel than it is", () => {
  const [cold, ...warm] = backend(2, 200);
  const slow = { concurrency: 1, callsMs: (cold?.callsMs ?? []).map((ms) => ms * 1.5) };
  expect(judgeParallelism([slow, ...warm])).toEqual({ status: "serial", takes: 2 });
});

test("calls that take next to no time say nothing about the backend", () => {
  expect(judgeParallelism(backend(1, 3))).toMatchObject({ status: "too_quick" });
});

test("a backend that refuses is limited to what it took before", () => {
  const levels = backend(8, 200).slice(0, 3);
  const refused: Level = { concurrency: 4, callsMs: [], failure: { isLimit: true, problem: "429" } };
  expect(judgeParallelism([...levels.slice(0, 2), refused])).toEqual({
    status: "limited",
    takes: 2,
    problem: "429",
  });
  expect(judgeParallelism([{ ...refused, concurrency: 1 }])).toEqual({
    status: "failed",
    takes: 0,
    problem: "429",
  });
});

test("any other failure is one", () => {
  const failure = { isLimit: false, problem: "401" };
  expect(judgeParallelism([...backend(8, 200), { concurrency: 8, callsMs: [], failure }])).toEqual({
    status: "failed",
    takes: 0,
    problem: "401",
  });
  expect(judgeParallelism([])).toEqual({ status: "failed", takes: 0, problem: "no call was made" });
});

test("throughput is that of the median call", () => {
  expect(callsPerSecond({ concurrency: 4, callsMs: [100, 100, 5_000] })).toBe(40);
  expect(callsPerSecond({ concurrency: 1, callsMs: [100, 300] })).toBe(5);
});
