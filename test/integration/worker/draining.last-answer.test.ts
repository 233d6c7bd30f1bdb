/** Guarantee: a run that has ended is settled by the worker that stops: its reply waits for no other. */
import { expect, test } from "vitest";
import { run } from "../../../src/worker/run/run.ts";
import { heldModel } from "../../helpers/held-model.ts";
import { runContextOf } from "../../helpers/run-context.ts";
import { openStage } from "../../stage/stage.ts";

test("a run whose last answer comes while its worker stops is settled there", async () => {
  const installation = await openStage({
    scenario: { turns: [{ content: [{ type: "text", text: "done" }] }] },
  });
  const agent = await installation.task("work");
  const draining = new AbortController();
  const model = heldModel(installation, async () => draining.abort());
  const context = runContextOf(installation, { model, draining: draining.signal });
  expect(await run(context, { address: agent, wake: 1, timesTaken: 1 })).toMatchObject({
    status: "settled",
    reply: { status: "succeeded", turns: 1 },
  });
});
