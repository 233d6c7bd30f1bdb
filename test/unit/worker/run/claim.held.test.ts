/** What becomes of the wake of an agent that is not free when a worker claims it. */
import { expect, test } from "vitest";
import { TIMING } from "../../../../src/shared/protocol/limits.ts";
import { claimRun } from "../../../../src/worker/run/claim.ts";
import type { RunContext } from "../../../../src/worker/run/context.ts";
import type { RunSlot } from "../../../../src/worker/run-slots.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

/** Claims an agent that is free in `waitMs`; the worker begins to stop meanwhile if it `stops`. `more`: the rest of the answer. */
async function claimHeld(waitMs: number, stops: boolean, more: { wake?: number; due_at?: number } = {}) {
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
        return { status: "held", wait_ms: waitMs, ...more };
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

test("the own wake of an agent that is due later goes back into the queue until then, by the clock of its worker", async () => {
  const back = { status: "returned", reason: "early", delayMs: 2_001 };
  expect(await claimHeld(2_001, false, { wake: 1, due_at: 2_001 })).toEqual(back);
  expect(await claimHeld(2_001, true, { wake: 1, due_at: 2_001 })).toEqual(back);
  const replaced = { status: "passed", reason: "held" };
  expect(await claimHeld(2_001, false, { wake: 2, due_at: 2_001 })).toEqual(replaced);
});

test("a worker whose clock is further ahead than a sweeper is late drops the wake: it would keep it from the others", async () => {
  const aheadBy = (ms: number) => claimHeld(2_001, false, { wake: 1, due_at: 2_001 - ms });
  expect(await aheadBy(TIMING.checkMs)).toMatchObject({ status: "returned" });
  expect(await aheadBy(TIMING.checkMs + 1)).toEqual({ status: "passed", reason: "held" });
});
