/** Guarantee: options beside the prompt of a task count, and a schema changes no reply but one that fits or should. */
import { expect, test } from "vitest";
import { z } from "zod";
import { testClient, testParent } from "../../helpers/parents.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("a task hears why it waits also if its listener stands beside the prompt", async () => {
  const waits: unknown[] = [];
  const stop = new AbortController();
  const onWait = (wait: unknown) => void waits.push(wait);
  const task = testParent(testClient()).task({ prompt: "go", onWait, signal: stop.signal });
  const refused = expect(task).rejects.toThrow("enough");
  await until(() => waits.length > 0, { timeoutMs: 20_000 });
  stop.abort(new Error("enough"));
  await refused;
});

test("a failed reply to a task with a schema stays as the run ended", async () => {
  const stage = await openStage({
    scenario: { turns: [{ error: { status: 400, message: "no credit is left" } }] },
  });
  await stage.startWorker();
  const reply = await stage.parent("planner-7").task({
    prompt: "go",
    output_schema: z.object({ answer: z.string() }),
  });
  expect(reply).toMatchObject({ status: "failed", stop_reason: "model_error" });
});
