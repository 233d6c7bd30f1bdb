/** Guarantee: a worker whose wall clock jumps, an hour ahead or back, does nothing of it: leases are counted otherwise. */

import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { openTroubledStage, startBatch } from "./troubled-runs.ts";

const JUMPS = [1, -1];
const preload = pathToFileURL(join(import.meta.dirname, "../helpers/fixtures/jumping-clock.mjs")).href;

test("runs in flight go on through jumps of an hour, and new ones start at once", async () => {
  const stage = await openTroubledStage();
  const env = { NODE_OPTIONS: `--import ${preload}`, JUMPS_HOURS: JUMPS.join() };
  const worker = await stage.commandLineWorker({ env });
  for (const [i, hours] of JUMPS.entries()) {
    const batch = await startBatch(stage, `hours${hours}`);
    const calls = stage.offline.ledger.length;
    const lines = worker.stderr.filter((line) => line.includes('"jumped"')).length;
    process.kill(worker.pid, "SIGUSR2");
    expect(lines).toBe(i);
    const jumpedMs = performance.now();
    expect((await batch.succeedsOnce(30_000)).calls).toBe(48);
    expect(stage.offline.ledger.length).toBeGreaterThan(calls);
    const jumped = worker.stderr.filter((line) => line.includes('"jumped"'));
    expect(jumped).toHaveLength(i + 1);
    const { now } = JSON.parse(jumped[i] ?? "{}") as { now: number };
    expect(Math.round((now - Date.now()) / 3_600_000)).toBe(hours);
    const another = await stage.parent(`after${hours}`).task({ prompt: "again" });
    expect(another.status).toBe("succeeded");
    process.stdout.write(
      `a jump of ${hours} h: ${Math.round(performance.now() - jumpedMs)} ms to the last reply\n`,
    );
    expect((await worker.readiness()).ready).toBe(true);
  }
});
