/** Which calls a measurement makes, and how it ends. */
import { expect, test } from "vitest";
import { callAtAllLevels } from "../../../../src/cli/doctor/measure.ts";
import type { CallControl, CallOutcome, FailureKind } from "../../../../src/worker/model/model.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

/** Calls of the first two levels, one at a time. */
const ONE_BY_ONE = 5;

function measuring(answer: (call: number, control: CallControl) => CallOutcome | Promise<CallOutcome>) {
  const stopping = new AbortController();
  let calls = 0;
  const model = {
    async call(_: unknown, control: CallControl) {
      calls += 1;
      return answer(calls, control);
    },
    stop: async () => {},
  };
  const { signal } = stopping;
  const levels = callAtAllLevels({ model, modelId: "m", clock: handClock(), signal });
  return { levels, stopping, calls: () => calls };
}

const answered = { status: "answer" } as CallOutcome;
const failed = (kind: FailureKind): CallOutcome => ({
  status: "failed",
  failure: { kind, retryable: true, message: "no" },
});

test.each([
  ["overloaded", true],
  ["rate_limited", true],
  ["billing", false],
] as const)("a call that is %s is the last: none begins after it", async (kind, isLimit) => {
  const { levels, calls } = measuring((call) => (call <= ONE_BY_ONE ? answered : failed(kind)));
  expect((await levels).at(-1)).toEqual({
    concurrency: 2,
    callsMs: [],
    failure: { isLimit, problem: "no" },
  });
  // Two were under way.
  expect(calls()).toBe(ONE_BY_ONE + 2);
});

test("an interrupted measurement aborts the call under way", async () => {
  let aborted: string | undefined;
  const { levels, stopping } = measuring(
    (_, control) =>
      new Promise((resolve) => {
        control.abortCall = (reason) => {
          aborted = reason;
          resolve({ status: "aborted" });
        };
      }),
  );
  stopping.abort();
  expect(aborted).toBe("measuring was interrupted");
  expect((await levels).at(-1)?.failure).toEqual({ isLimit: false, problem: "it was interrupted" });
});
