/** Guarantee: a question is asked, and later answered by its default, though Redis refuses the hint about it for a while. */
import { expect, test } from "vitest";
import { deadlineMember } from "../../../src/shared/protocol/keys.ts";
import { run } from "../../../src/worker/run/run.ts";
import { askParentTool } from "../../../src/worker/tools/builtin/parent.ts";
import { kindsWith, runContextOf } from "../../helpers/run-context.ts";
import { LONG_TIMING, openStage } from "../../stage/stage.ts";

const ANSWER_MS = 5_000;

test("a run whose hint about a question is refused does not break off: the hint follows the question", async () => {
  const question = {
    type: "tool_use" as const,
    id: "colour",
    name: "ask_parent",
    input: { question: "Which?" },
  };
  const stage = await openStage({ scenario: { turns: [{ content: [question] }] }, timing: LONG_TIMING });
  const agent = await stage.task("work", { answer_ms: ANSWER_MS });
  const { redis, keys, deadlines } = stage;
  let refusals = 0;
  const hint: typeof deadlines.hint = async (address, inMs) => {
    if (inMs === ANSWER_MS && refusals++ === 0)
      throw new Error("NOREPLICAS Not enough good replicas to write.");
    return deadlines.hint(address, inMs);
  };
  const context = runContextOf(stage, {
    specs: kindsWith([askParentTool()]),
    deadlines: { ...deadlines, hint },
  });
  const end = await run(context, { address: agent, wake: 1, timesTaken: 1 });
  expect(end).toEqual({ status: "released", reason: "question" });
  const deadline = Number(await redis.hget(keys.agent(agent).record, "deadline"));
  await expect
    .poll(async () => Number(await redis.zscore(keys.deadlines, deadlineMember(agent))))
    .toBeLessThanOrEqual(deadline + ANSWER_MS / 2);
});
