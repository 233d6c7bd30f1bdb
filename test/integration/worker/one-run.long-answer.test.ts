/** Guarantee: an answer may be as long as the tokens that its agent may use for one. */
import { expect, test } from "vitest";
import { run } from "../../../src/worker/run/run.ts";
import { say } from "../../helpers/chapters.ts";
import { runContextOf } from "../../helpers/run-context.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

test("an answer of 200 KB is taken where an agent may use 8,000 tokens for it", async () => {
  const stage = await openStage({
    scenario: [{ turns: [say("word ".repeat(40_000))] }],
    timing: LONG_TIMING,
  });
  const agent = await stage.task("work", {
    limits: { max_turns: 5, max_tokens: 8_000, max_duration_ms: 60_000 },
  });
  await run(runContextOf(stage), { address: agent, wake: 1, timesTaken: 1 });
  expect(await stage.reply(agent)).toMatchObject({ status: "succeeded", truncated: true });
});
