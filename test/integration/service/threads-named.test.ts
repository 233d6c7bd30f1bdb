/** A thread of the Agent Protocol has the id that is made for it: one that a client names would be lost with its first run. */
import { expect, test } from "vitest";
import { AGENT_PROTOCOL_PATH, agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { newThreadId } from "../../../src/service/agent-protocol/thread.ts";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

test("a client that names the thread which it makes is told that it cannot", async () => {
  const stage = await openStage();
  const api = await startApi({ client: stage.client(), mounts: [agentProtocol()] });
  const make = (body: object) => api.ask("POST", `${AGENT_PROTOCOL_PATH}/threads`, { body });
  const named = await make({ thread_id: newThreadId() });
  expect(named).toMatchObject({ status: 400, body: { code: "invalid_input" } });
  expect(named.body.detail).toContain("ids of threads are made here");
  expect(await make({ metadata: {} })).toMatchObject({ status: 200, body: { status: "idle" } });
});
