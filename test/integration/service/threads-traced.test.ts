/** A run of a thread belongs to the trace of the request that began it. */
import { expect, test } from "vitest";
import { AGENT_PROTOCOL_PATH, agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { agentOf } from "../../../src/shared/protocol/keys.ts";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

const PARENT = { tenant: "default", parentId: "agent-protocol" };
const TRACEPARENT = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;

test("an agent that a message of a thread begins has the traceparent of its request", async () => {
  const stage = await openStage();
  const { ask } = await startApi({ client: stage.client(), mounts: [agentProtocol()] });
  const threads = `${AGENT_PROTOCOL_PATH}/threads`;
  const threadId: string = (await ask("POST", threads, { body: {} })).body.thread_id;
  const input = { messages: [{ role: "user", content: "go" }] };
  const { status } = await ask("POST", `${threads}/${threadId}/runs`, {
    body: { assistant_id: "researcher", input },
    headers: { traceparent: TRACEPARENT },
  });
  expect(status).toBe(200);
  const record = await stage.store.record(agentOf(PARENT, threadId));
  expect(record?.spec.traceparent).toBe(TRACEPARENT);
});
