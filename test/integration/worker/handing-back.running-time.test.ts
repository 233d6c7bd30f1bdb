/** Guarantee: the time that a run's calls have taken counts, also of a claim that brought the run nothing. */
import { expect, test } from "vitest";
import { run } from "../../../src/worker/run/run.ts";
import { heldModel } from "../../helpers/held-model.ts";
import { providerLimitOf, runContextOf, skippingClock } from "../../helpers/run-context.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const CALL_MS = 5_000;
const OPEN = { status: "open", enteredAt: 0, holdsSlot: false } as const;

test("a call that failed has taken its time from the run, though a limit then keeps it from another", async () => {
  const done = { content: [{ type: "text" as const, text: "done" }], failures: [{ status: 500 }] };
  const stage = await openStage({ scenario: { turns: [done] }, timing: LONG_TIMING });
  const agent = await stage.task("work");
  const clock = skippingClock();
  const model = heldModel(stage, async () => clock.skip(CALL_MS));
  const provider = providerLimitOf(stage, clock, {
    acquire: async () =>
      stage.offline.ledger.length === 0 ? OPEN : { status: "wait", waitMs: 30_000, reason: "rate_limited" },
  });
  const context = runContextOf(stage, { clock, model, provider, random: () => 0 });
  const outcome = await run(context, { address: agent, wake: 1, timesTaken: 1 });
  expect(outcome).toEqual({ status: "released", reason: "rate_limited" });
  expect(stage.offline.ledger).toHaveLength(1);
  expect((await stage.record(agent)).running_ms).toBeGreaterThanOrEqual(CALL_MS);
});

test("a call that failed has taken its time from the run, though its provider then asks for patience", async () => {
  const failures = [{ status: 500, headers: { "retry-after": "30" } }];
  const done = { content: [{ type: "text" as const, text: "done" }], failures };
  const stage = await openStage({ scenario: { turns: [done] }, timing: LONG_TIMING });
  const agent = await stage.task("work");
  const clock = skippingClock();
  const model = heldModel(stage, async () => clock.skip(CALL_MS));
  const outcome = await run(runContextOf(stage, { clock, model }), {
    address: agent,
    wake: 1,
    timesTaken: 1,
  });
  expect(outcome).toEqual({ status: "released", reason: "server_error" });
  expect((await stage.record(agent)).running_ms).toBeGreaterThanOrEqual(CALL_MS);
});
