/** Guarantee: a suspect is claimed where it may run, and given back anywhere else. */
import { expect, test } from "vitest";
import { TIMING } from "../../../../src/shared/protocol/limits.ts";
import { claimRun, type SuspectIsolation } from "../../../../src/worker/run/claim.ts";
import type { RunContext } from "../../../../src/worker/run/context.ts";
import type { RunSlot } from "../../../../src/worker/run-slots.ts";
import { handClock } from "../../../helpers/hand-clock.ts";

/** Claims a suspect in a process of which `suspects` says where they run; `asked`: what its claims named. */
async function claimedSuspect(suspects: RunContext["suspects"], isolation?: SuspectIsolation) {
  const asked: unknown[] = [];
  const context = {
    clock: handClock(),
    draining: new AbortController().signal,
    deadlines: { isOrdered: true, hint: async () => {} },
    leases: { beginClaim: () => {}, endClaim: () => {} },
    store: {
      timing: TIMING,
      claim: async (_address: unknown, { isolation: alone, can_isolate }: Record<string, unknown>) => {
        asked.push([alone, can_isolate]);
        return { status: "suspect", wake: 1, crashes: 2, isolated_crashes: 1 };
      },
    },
    suspects,
    toolNames: () => [],
    logger: { debug: () => {}, warn: () => {} },
    random: () => 0,
    workers: { count: async () => 2 },
  } as unknown as RunContext;
  const taken = { address: { tenant: "t", parentId: "p", uid: "u" }, wake: 1, timesTaken: 1, isolation };
  const slot = { isolate: async () => true } as unknown as RunSlot;
  return { outcome: await claimRun(context, taken, slot), asked };
}

test("only a process whose suspects have room elsewhere says so", async () => {
  const canIsolate = async (suspects: RunContext["suspects"]) => (await claimedSuspect(suspects)).asked[0];
  expect(await canIsolate("in_another_process")).toEqual([undefined, true]);
  expect(await canIsolate("no_room")).toEqual([undefined, false]);
  expect(await canIsolate("in_this_process")).toEqual([undefined, false]);
});

test("a suspect that must be more alone than its process of suspects allows is given back, and not claimed there", async () => {
  const { outcome, asked } = await claimedSuspect("in_this_process", "group");
  expect(outcome).toEqual({ status: "returned", reason: "isolation", delayMs: 0 });
  expect(asked).toEqual([["group", false]]);
});
