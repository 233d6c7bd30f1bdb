/** Guarantee: the log tells of a run that breaks off and is handed back, and of none that its parent has ended meanwhile. */
import { expect, test } from "vitest";
import { createLogger } from "../../../../src/shared/logger.ts";
import type { ClaimedRun } from "../../../../src/worker/run/claim.ts";
import type { RunContext } from "../../../../src/worker/run/context.ts";
import { afterError } from "../../../../src/worker/run/failure.ts";
import type { Lease, LeaseEnd } from "../../../../src/worker/run/lease.ts";

/** Returns what the log says above the level of details when a run of a lease that has ended so breaks off. */
async function toldAfter(endReason: LeaseEnd) {
  const lines: string[] = [];
  const logger = createLogger({ level: "info", destination: { write: (line) => void lines.push(line) } });
  const store = { timing: { checkMs: 1 }, release: async () => ({ status: "stale" }) };
  const context = { logger, store, deadlines: { hint: async () => {} } } as unknown as RunContext;
  const lease = { address: { uid: "u" }, endReason, runningMs: () => 1 } as unknown as Lease;
  const claimed = { breaks: 0, attempts: 0 } as unknown as ClaimedRun;
  const end = await afterError(
    context,
    { claimed, lease, session: undefined },
    new Error("the disk is gone"),
  );
  expect(end).toEqual({ status: "lost" });
  return lines.map((line): unknown => JSON.parse(line).msg);
}

test("a run that breaks off is in the log, unless it was over before", async () => {
  expect(await toldAfter("expired")).toEqual(["Run broke off and is handed back"]);
  expect(await toldAfter("taken")).toEqual([]);
});
