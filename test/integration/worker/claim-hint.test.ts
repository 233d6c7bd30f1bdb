/** Guarantee: an agent that is claimed is checked at the end of its lease, also where the hint and the claim go to two servers. */
import { expect, test } from "vitest";
import type { AgentStore } from "../../../src/shared/redis/agent-store.ts";
import { claimRun } from "../../../src/worker/run/claim.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { runContextOf } from "../../helpers/run-context.ts";
import { openStage } from "../../stage/stage.ts";

const HINT_MS = 700;

/** Claims an agent whose hint takes its time; answers what happened in which order, and from when its lease counts. */
async function claimed(isOrdered: boolean, refusal?: Error) {
  const installation = await openStage();
  const clock = handClock();
  const order: string[] = [];
  const deadlines = {
    ...installation.deadlines,
    isOrdered,
    async hint() {
      order.push("hint");
      await new Promise(setImmediate);
      clock.advance(HINT_MS);
      order.push("hinted");
      if (refusal) throw refusal;
    },
  };
  const claim: AgentStore["claim"] = (address, input) => {
    order.push("claim");
    return installation.store.claim(address, input);
  };
  const store = { ...installation.store, claim };
  const context = runContextOf(installation, { store, deadlines, clock });
  const slot = context.slots.admit();
  if (!slot) throw new Error("nobody is admitted");
  const run = await claimRun(
    context,
    { address: await installation.task("work"), wake: 1, timesTaken: 1 },
    slot,
  );
  if (run.status !== "claimed") throw new Error(run.status);
  return { order, countsFromMs: run.claimedAtMs };
}

test("over one connection the claim is sent behind its hint, and does not wait for it", async () => {
  expect(await claimed(true)).toEqual({ order: ["hint", "claim", "hinted"], countsFromMs: 0 });
});

test("on a cluster the claim waits for its hint, and its lease counts from the claim", async () => {
  expect(await claimed(false)).toEqual({ order: ["hint", "hinted", "claim"], countsFromMs: HINT_MS });
});

test("on a cluster that refuses the hint the agent is claimed all the same, and the hint sent again", async () => {
  const { order } = await claimed(false, new Error("READONLY"));
  expect(order.slice(0, 4)).toEqual(["hint", "hinted", "claim", "hint"]);
});
