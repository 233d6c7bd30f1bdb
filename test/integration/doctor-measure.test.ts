/** Guarantee: a model backend that serialises is told from one that does not, over HTTP and the real SDK. */
import { expect, test } from "vitest";
import { callAtAllLevels, measurementOf } from "../../src/cli/doctor/measure.ts";
import { createOfflineModel, type OfflineModel, type Scenario } from "../../src/offline/server.ts";
import { type Clock, systemClock } from "../../src/shared/clock.ts";
import { createAnthropicModel } from "../../src/worker/model/anthropic/model.ts";
import type { Model } from "../../src/worker/model/model.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";

/** Time of one call by the clock of {@link answering}, ms. */
const CALL_MS = 100;

interface Backend {
  model: Model;
  clock: Clock;
}

async function measured(
  scenario: Scenario | undefined,
  asSeen: (backend: Backend) => Backend,
  signal = new AbortController().signal,
) {
  const offline: OfflineModel = createOfflineModel({ ...(scenario && { scenario }) });
  closeAtEnd(() => offline.stop());
  await offline.start();
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: offline.url });
  closeAtEnd(() => model.stop());
  const levels = await callAtAllLevels({
    ...asSeen({ model, clock: systemClock }),
    modelId: "offline-1",
    signal,
  });
  return { ...measurementOf(levels, 50), levels, ledger: offline.ledger };
}

/**
 * A backend that takes `atOnce` calls at a time, the oldest first. Its clock advances by one call for each time that it
 * answers, and it answers only when every call has come: a busy machine changes no figure.
 */
const answering =
  (atOnce: number) =>
  ({ model, clock }: Backend): Backend => {
    const startedMs = clock.monotonicMs();
    const waiting: (() => void)[] = [];
    let [answered, underWay] = [0, 0];
    const answer = () => {
      if (waiting.length === 0 || waiting.length < underWay) return;
      answered += 1;
      for (const begin of waiting.splice(0, atOnce)) begin();
    };
    const call: Model["call"] = async (request, control) => {
      underWay += 1;
      await new Promise<void>((begin) => {
        waiting.push(begin);
        setImmediate(answer);
      });
      return model.call(request, control).finally(() => {
        underWay -= 1;
        setImmediate(answer);
      });
    };
    const monotonicMs = () => startedMs + answered * CALL_MS;
    return { model: { ...model, call }, clock: { ...clock, monotonicMs } };
  };

const asItIs = (backend: Backend) => backend;

test("a backend with a lock is named, with the calls it takes and the concurrency that is enough", async () => {
  const { area, findings, levels, ledger } = await measured(undefined, answering(1));
  expect(area.summary).toBe("answers 1 call at a time · 1: 10.0/s  2: 10.0/s  4: 10.0/s  8: 10.0/s");
  expect(findings).toMatchObject([
    {
      check: "serial_model",
      severity: "warn",
      what: "the model backend answers 1 call at a time: SUBAGENT_CONCURRENCY above 2 only queues",
    },
  ]);
  expect(levels.map(({ concurrency }) => concurrency)).toEqual([1, 2, 4, 8]);
  expect(ledger).toHaveLength(47);
  expect(ledger.every((call) => call.max_tokens === 16)).toBe(true);
});

test("a backend without one is found to answer side by side", async () => {
  const { area, findings } = await measured(undefined, answering(8));
  expect(area.summary).toBe(
    "answers 8 calls side by side without waiting · 1: 10.0/s  2: 20.0/s  4: 40.0/s  8: 80.0/s",
  );
  expect(findings).toEqual([]);
});

test("a backend that refuses is an error that says why, after one call", async () => {
  const error = { status: 401, type: "authentication_error", message: "invalid x-api-key" } as const;
  const { findings, ledger } = await measured({ turns: [{ error }], repeat: true }, asItIs);
  expect(findings).toMatchObject([{ check: "model_failed", severity: "error" }]);
  expect(findings[0]?.what).toMatch(/could not be measured: .*invalid x-api-key/);
  expect(ledger).toHaveLength(1);
});

test("whoever interrupts it ends the calls", async () => {
  const stopping = new AbortController();
  stopping.abort();
  const { findings, ledger } = await measured(undefined, asItIs, stopping.signal);
  expect(findings).toMatchObject([{ check: "model_failed" }]);
  expect(ledger).toHaveLength(0);
});
