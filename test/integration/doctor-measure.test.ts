/** Guarantee: a model backend that serialises is told from one that does not, over HTTP and the real SDK. */
import { beforeAll, expect, test } from "vitest";
import { callAtAllLevels, measurementOf } from "../../src/cli/doctor/measure.ts";
import { createOfflineModel, type OfflineModel } from "../../src/offline/server.ts";
import { systemClock } from "../../src/shared/clock.ts";
import { createAnthropicModel } from "../../src/worker/model/anthropic/model.ts";
import { closeAtEnd } from "../helpers/cleanup.ts";
import { percentile } from "../helpers/figures.ts";

const LEAST_LATENCY_MS = 150;
/** So many times as long as this machine itself needs for a call, however busy it is. */
const MUCH_LONGER = 8;
/** Set before the first test. */
let latencyMs = LEAST_LATENCY_MS;

async function measured(
  options: Parameters<typeof createOfflineModel>[0],
  signal = new AbortController().signal,
) {
  const offline: OfflineModel = createOfflineModel({ latencyMs, ...options });
  closeAtEnd(() => offline.stop());
  await offline.start();
  const model = createAnthropicModel({ apiKey: "offline", baseUrl: offline.url });
  closeAtEnd(() => model.stop());
  const levels = await callAtAllLevels({ model, modelId: "offline-1", clock: systemClock, signal });
  return { ...measurementOf(levels, 50), levels, ledger: offline.ledger };
}

beforeAll(async () => {
  const { levels } = await measured({ latencyMs: 0 });
  const callsMs = (levels[0]?.callsMs ?? []).toSorted((a, b) => a - b);
  latencyMs = Math.max(LEAST_LATENCY_MS, Math.ceil(MUCH_LONGER * percentile(callsMs, 0.5)));
});

test("a backend with a lock is named, with the calls it takes and the concurrency that is enough", async () => {
  const { area, findings, levels, ledger } = await measured({ parallel: 1 });
  expect(area.summary).toMatch(/^answers 1 call at a time · 1: /);
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
  // Eight calls at once must wait for the backend, not for this machine.
  const { area, findings } = await measured({ latencyMs: 3 * latencyMs });
  expect(area.summary).toMatch(/^answers 8 calls side by side/);
  expect(findings).toEqual([]);
});

test("a backend that refuses is an error that says why, after one call", async () => {
  const error = { status: 401, type: "authentication_error", message: "invalid x-api-key" } as const;
  const { findings, ledger } = await measured({ scenario: { turns: [{ error }], repeat: true } });
  expect(findings).toMatchObject([{ check: "model_failed", severity: "error" }]);
  expect(findings[0]?.what).toMatch(/could not be measured: .*invalid x-api-key/);
  expect(ledger).toHaveLength(1);
});

test("whoever interrupts it ends the calls", async () => {
  const stopping = new AbortController();
  stopping.abort();
  const { findings, ledger } = await measured({}, stopping.signal);
  expect(findings).toMatchObject([{ check: "model_failed" }]);
  expect(ledger).toHaveLength(0);
});
