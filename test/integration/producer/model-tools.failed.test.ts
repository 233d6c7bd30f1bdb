/** Guarantee: a parent's model that looks at a failed sub-agent learns why it failed, also when the reply was acked before. */
import { expect, test } from "vitest";
import { openStage } from "../../stage/stage.ts";

test("check_sub_agent says why a run failed whose reply is acked", async () => {
  const stage = await openStage({
    scenario: { turns: [{ error: { status: 400, message: "no credit is left" } }] },
  });
  await stage.startWorker();
  const parent = stage.parent();
  const { agent_id } = await parent.task("work");
  const [check] = parent.tools(["check_sub_agent"]);
  const [facts = ""] = ((await check?.run({ agent_id })) ?? "").split("\n");
  expect(JSON.parse(facts)).toMatchObject({
    status: "ended",
    ended_reason: "failed",
    error: expect.stringContaining("no credit is left"),
  });
});
