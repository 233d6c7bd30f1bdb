import { expect, test } from "vitest";
import { callsPerSecond, diagnoseParallelism, type Level } from "../../../../src/cli/doctor/measure.ts";

const LEVELS = [1, 2, 4, 8];
/** What a backend shows that answers `places` calls at a time, each in `callMs`; `slow` calls of ten take three times as long. */
function backend(places: number, callMs: number, slow = 0): Level[] {
  return LEVELS.map((concurrency) => {
    const each = callMs * Math.max(1, concurrency / places);
    const callsMs = Array.from({ length: 20 }, (_, n) => (n % 10 < slow ? 3 * each : each));
    return { concurrency, callsMs };
  });
}

/** What is said of the backend to a worker that has so many runs at a time. */
const said = (levels: readonly Level[], runs = 50) => diagnoseParallelism(levels, runs);

test.each([1, 2, 3, 4])("a backend that answers %i calls at a time is found to", (places) => {
  expect(said(backend(places, 200)).summary).toMatch(new RegExp(`^answers ${places} calls? at a time$`));
});

test("twice as many runs as it answers calls are enough, more are advised against", () => {
  expect(said(backend(2, 200), 4).finding).toBeUndefined();
  expect(said(backend(2, 200), 5).finding).toMatchObject({
    check: "serial_model",
    severity: "warn",
    what: "the model backend answers 2 calls at a time: SUBAGENT_CONCURRENCY above 4 only queues",
    todo: "set SUBAGENT_CONCURRENCY=4 for all workers together (it is 5 here)",
  });
});

test("a backend that answers everything at once is parallel, also when it slows down a little or stumbles", () => {
  const parallel = { summary: "answers 8 calls side by side without waiting" };
  expect(said(backend(8, 200))).toEqual(parallel);
  expect(said(backend(6, 200))).toEqual(parallel);
  expect(said(backend(100, 200, 2))).toEqual(parallel);
});

test("first calls that find everything cold do not make a backend look more parallel than it is", () => {
  const [cold, ...warm] = backend(2, 200);
  const slow = { concurrency: 1, callsMs: (cold?.callsMs ?? []).map((ms) => ms * 1.5) };
  expect(said([slow, ...warm]).summary).toBe("answers 2 calls at a time");
});

test("calls that take next to no time say nothing about the backend", () => {
  expect(said(backend(1, 3))).toEqual({ summary: "a call takes 3.0 ms: too quick to tell" });
});

test("a backend that refuses is limited to what it took before", () => {
  const [one, two] = backend(8, 200);
  const refused: Level = { concurrency: 4, callsMs: [], failure: { isLimit: true, problem: "429" } };
  const { summary, finding } = said([one, two, refused].filter((level) => level !== undefined));
  expect(summary).toBe("refuses more than 2 calls at a time");
  expect(finding?.what).toBe(
    "the model backend takes no more than 2 calls at a time: SUBAGENT_CONCURRENCY above 4 is refused and tried again later",
  );
  expect(said([{ ...refused, concurrency: 1 }]).finding).toMatchObject({ check: "model_failed" });
});

test("any other failure is one", () => {
  const failure = { isLimit: false, problem: "401" };
  expect(said([...backend(8, 200), { concurrency: 8, callsMs: [], failure }])).toMatchObject({
    summary: "not measured",
    finding: {
      check: "model_failed",
      severity: "error",
      what: "the model backend could not be measured: 401",
    },
  });
});

test("throughput is that of the median call", () => {
  expect(callsPerSecond({ concurrency: 4, callsMs: [100, 100, 5_000] })).toBe(40);
  expect(callsPerSecond({ concurrency: 1, callsMs: [100, 300] })).toBe(5);
});
