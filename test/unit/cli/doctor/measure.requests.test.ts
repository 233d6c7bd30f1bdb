/** What a measurement asks of the backend, and what it makes of the answers. */
import { expect, test } from "vitest";
import { callAtAllLevels, measurementOf } from "../../../../src/cli/doctor/measure.ts";
import type { CallControl, CallOutcome, ModelRequest } from "../../../../src/worker/model/model.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

async function measured() {
  const asked: { request: ModelRequest; control: CallControl }[] = [];
  const model = {
    async call(request: ModelRequest, control: CallControl) {
      asked.push({ request, control });
      return { status: "answer" } as CallOutcome;
    },
    stop: async () => {},
  };
  const clock = handClock();
  const { signal } = new AbortController();
  const levels = await callAtAllLevels({ model, modelId: "m", clock, signal });
  return { asked, levels, startedMs: clock.monotonicMs() };
}

test("47 calls are made, and the one that opens the connection is not counted", async () => {
  const { asked, levels } = await measured();
  expect(asked).toHaveLength(47);
  expect(levels.map(({ concurrency, callsMs }) => [concurrency, callsMs.length])).toEqual([
    [1, 4],
    [2, 6],
    [4, 12],
    [8, 24],
  ]);
});

test("each call is a purchase of its own, of at most 16 output tokens and a minute", async () => {
  const { asked, startedMs } = await measured();
  expect(new Set(asked.map(({ request }) => request.purchaseId)).size).toBe(47);
  for (const { request, control } of asked) {
    expect(request).toMatchObject({ model: "m", maxTokens: 16, stream: false });
    expect(request.head).toMatch(/"max_tokens":16[,}]/);
    expect(control.deadlineMs).toBe(startedMs + 60_000);
  }
});

test("the calls per second are told to the hundredth", () => {
  const { levels } = measurementOf([{ concurrency: 1, callsMs: [300, 300, 300] }], 1);
  expect(levels).toEqual([{ concurrency: 1, calls: 3, calls_per_second: 3.33 }]);
});
