/** What a client of a thread sees of a run that is over. */
import { expect, test } from "vitest";
import { newThreadId, openThread } from "../../../src/service/agent-protocol/thread.ts";
import { agentOf } from "../../../src/shared/protocol/keys.ts";
import { openStage } from "../../stage/stage.ts";

const PARENT = { tenant: "default", parentId: "planner-7" };

test("a run was updated last when it ended", async () => {
  const stage = await openStage();
  const threadId = newThreadId();
  const thread = openThread(stage.client(), PARENT.tenant, PARENT.parentId, threadId);
  const { run_id } = await thread.begin({ assistantId: "researcher", text: "go" });
  await stage.scriptedWorker().run("researcher");
  const ended = (await stage.store.record(agentOf(PARENT, threadId)))?.ended_at;
  const { created_at, updated_at } = await thread.run(run_id);
  expect(Date.parse(updated_at)).toBe(ended);
  expect(Date.parse(created_at)).toBeLessThan(ended ?? 0);
});
