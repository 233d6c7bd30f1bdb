/** Of whose thread a run is, and what its client is told of it when it begins. */
import { expect, test } from "vitest";
import { AGENT_PROTOCOL_PATH, agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { newThreadId, openThread } from "../../../src/service/agent-protocol/thread.ts";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

test("the answer to its begin is the run as its thread lists it", async () => {
  const stage = await openStage();
  const thread = openThread(stage.client(), "default", "planner-7", newThreadId());
  const begun = await thread.begin({ assistantId: "researcher", text: "go" });
  expect(begun).toMatchObject({ status: "pending", assistant_id: "researcher" });
  expect(await thread.runs()).toEqual([begun]);
});

test("a client whose variable for the parent is empty begins nothing under another one", async () => {
  const stage = await openStage();
  const api = await startApi({ client: stage.client(), mounts: [agentProtocol()] });
  const state = (headers: Record<string, string>) =>
    api.ask("GET", `${AGENT_PROTOCOL_PATH}/threads/${newThreadId()}/state`, { headers });
  expect(await state({ "x-parent-id": "" })).toMatchObject({ status: 400, body: { code: "invalid_input" } });
  expect((await state({})).status).toBe(200);
});
