/** Guarantee: what a process of suspects counts is in the metrics of its worker. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { createLogger } from "../../../src/shared/logger.ts";
import { ZERO_USAGE } from "../../../src/shared/protocol/content.ts";
import { metricsOfWorker } from "../../../src/worker/isolated-worker.ts";
import { createIsolationProcesses } from "../../../src/worker/isolation-processes.ts";
import type { RunMetrics } from "../../../src/worker/observe/metrics.ts";
import type { RunContext } from "../../../src/worker/run/context.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";

const FILE = join(import.meta.dirname, "../../helpers/fixtures/held-suspects.mjs");
const COUNTED: { [Name in keyof RunMetrics]: Parameters<RunMetrics[Name]> } = {
  takenOver: [],
  settled: ["succeeded", "end_turn", 1_200],
  answered: ["claude-sonnet-4-5", 800],
  bought: ["claude-sonnet-4-5", ZERO_USAGE, 0.5],
  refused: ["rate_limited"],
  toolCalled: ["grep", true, 30],
};

/** Counts in a process of suspects; returns the messages for its worker. */
function countInProcess(): unknown[] {
  const { send, connected } = process;
  const sent: unknown[] = [];
  Object.assign(process, { connected: true, send: (message: unknown) => sent.push(message) });
  try {
    for (const [name, args] of Object.entries(COUNTED))
      Reflect.apply(Reflect.get(metricsOfWorker, name), null, args);
  } finally {
    Object.assign(process, { connected, send });
  }
  return sent;
}

test("what a process of suspects counts is counted by its worker, each as often as it was", async () => {
  const counts = countInProcess().map((message) => Reflect.get(Object(message), "count"));
  expect(counts).toHaveLength(Object.keys(COUNTED).length);
  const seen: [string, unknown[]][] = [];
  const note =
    (name: string) =>
    (...args: unknown[]) =>
      void seen.push([name, args]);
  const metrics = Object.fromEntries(Object.keys(COUNTED).map((name) => [name, note(name)]));
  const context = { logger: createLogger({ level: "silent" }), clock: handClock(), observer: { metrics } };
  const processes = createIsolationProcesses(
    context as unknown as RunContext,
    { file: FILE, args: ["", JSON.stringify(counts)] },
    { concurrency: 1, drainGraceMs: 100 },
  );
  closeAtEnd(() => processes.stop());
  const suspect = { address: { tenant: "t", parentId: "p", uid: "sa-1" }, wake: 1, timesTaken: 4 };
  expect(await processes.run(suspect, 0)).toEqual({ status: "passed", reason: "tried" });
  expect(seen).toEqual(Object.entries(COUNTED));
});
