/** Guarantee: a run that another caller has ended in the same way is not taken for this worker's: what it bought is booked. */
import { expect, test } from "vitest";
import { NOTHING_DONE } from "../../../src/shared/protocol/reply.ts";
import { run } from "../../../src/worker/run/run.ts";
import { runContextOf } from "../../helpers/run-context.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

test("the last call of a run that a sweeper ends as failed, just before its worker does, is in the parent's counters", async () => {
  const refusal = { content: [], stop_reason: "refusal" };
  const stage = await openStage({ scenario: { turns: [refusal] }, timing: LONG_TIMING });
  const agent = await stage.task("work");
  const { store } = stage;
  const settle: typeof store.settle = async (address, input) => {
    const ended = {
      target: "ended",
      ended_reason: "failed",
      status: "failed",
      stop_reason: "max_age",
    } as const;
    await store.settle(address, { authority: "parent", ...ended, progress: NOTHING_DONE });
    return store.settle(address, input);
  };
  const context = runContextOf(stage, { store: { ...store, settle } });
  expect(await run(context, { address: agent, wake: 1, timesTaken: 1 })).toEqual({ status: "lost" });
  const { tokens } = await store.usage(agent, 0);
  expect(tokens).toBeGreaterThan(0);
});
