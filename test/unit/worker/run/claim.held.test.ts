/** What becomes of the wake of an agent that is not free when a worker claims it. */
import { expect, test } from "vitest";
import { TIMING } from "../../../../src/shared/protocol/limits.ts";
import { claimRun } from "../../../../src/worker/run/claim.ts";
import type { RunContext } from "../../../../src/worker/run/context.ts";
import type { RunSlot } from "../../../../src/worker/run-slots.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

/** Claims an agent that is free in `waitMs`; the worker begins to stop meanwhile if it `stops`. */
async function claimHeld(waitMs: number, stops: boolean) {
  const draining = new AbortController();
  const context = {
    clock: handClock(),
    draining: draining.signal,
    deadlines: { isOrdered: true, hint: async () => {} },
    leases: { beginClaim() {}, endClaim() {} },
    store: {
      timing: TIMING,
      async claim() {
        if (stops) draining.abort();
        return { status: "held", wait_ms: waitMs };
      },
    },
    toolNames: () => [],
  } as unknown as RunContext;
  const taken = { address: { tenant: "t", parentId: "p", uid: "u" }, wake: 1, timesTaken: 1 };
  return claimRun(context, taken, {} as RunSlot);
}

test("a worker that stops while it waits for an agent that is free soon returns the wake to the others", async () => {
  expect(await claimHeld(2_000, true)).toEqual({ status: "returned", reason: "drain", delayMs: 0 });
});

test.for([true, false])(
  "the wake of an agent that is not free soon is dropped, stop or not: %s",
  async (stops) => {
    expect(await claimHeld(2_001, stops)).toEqual({ status: "passed", reason: "held" });
  },
);
