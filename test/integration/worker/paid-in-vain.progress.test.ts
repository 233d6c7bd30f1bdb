/** Guarantee: what a call in vain cost is in the record of its agent once it is committed, whoever ends the run. */
import { expect, test } from "vitest";
import { ZERO_USAGE } from "../../../src/shared/protocol/content.ts";
import type { Model } from "../../../src/worker/model/model.ts";
import { run } from "../../../src/worker/run/run.ts";
import { runContextOf } from "../../helpers/run-context.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

test("a call that was paid for in vain is in the progress of a run that is handed back", async () => {
  const stage = await openStage({ timing: LONG_TIMING });
  const agent = await stage.task("work");
  const usage = { ...ZERO_USAGE, input_tokens: 100, output_tokens: 11 };
  const failure = {
    kind: "server_error",
    retryable: true,
    retryAfterMs: 30_000,
    message: "broke off",
  } as const;
  const model: Model = {
    async call(_request, control) {
      control.mayBegin();
      return { status: "failed", failure, usage };
    },
    stop: async () => {},
  };
  const outcome = await run(runContextOf(stage, { model }), { address: agent, wake: 1, timesTaken: 1 });
  expect(outcome).toEqual({ status: "released", reason: "server_error" });
  expect((await stage.record(agent)).progress).toMatchObject({ tokens: 111, usage });
});
