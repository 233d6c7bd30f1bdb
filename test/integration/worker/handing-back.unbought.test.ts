/** Guarantee: a call that was asked for and did not begin costs nothing. */
import { expect, test } from "vitest";
import { run } from "../../../src/worker/run/run.ts";
import { heldModel } from "../../helpers/held-model.ts";
import { runContextOf, skippingClock } from "../../helpers/run-context.ts";
import { openStage } from "../../stage/stage.ts";

test("a lease that is over before the first byte of a call leaves nothing to pay", async () => {
  const stage = await openStage({ scenario: { turns: [{ content: [{ type: "text", text: "done" }] }] } });
  const agent = await stage.task("work");
  const clock = skippingClock();
  const model = heldModel(stage, async () => clock.skip(stage.store.timing.leaseMs));
  const context = runContextOf(stage, { clock, model });
  const outcome = await run(context, { address: agent, wake: 1, timesTaken: 1 });
  expect(outcome).toEqual({ status: "released", reason: "lease_lost" });
  expect(stage.offline.ledger).toEqual([]);
  expect((await stage.parent(agent.parentId).usage()).tokens).toBe(0);
});
