/** A run of a resumed agent belongs to the trace of the request that resumed it. */
import { expect, test } from "vitest";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

const PARENT = { tenant: "default", parentId: "planner-7" };
const PATH = `/v1/parents/${PARENT.parentId}`;
const TRACEPARENT = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;

test("an agent that a request resumes has the traceparent of its request", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const { ask } = await startApi({ client: stage.client() });
  await ask("PUT", PATH, { body: { transcript_ms: 3_600_000 } });
  await ask("POST", `${PATH}/tasks?wait=60`, { body: { prompt: "Say hello" } });
  const headers = { traceparent: TRACEPARENT };
  const { body } = await ask("POST", `${PATH}/agents/task/resume`, { body: { text: "Once more" }, headers });
  const uid = (await stage.store.uidOf(PARENT, body.agent_id)) ?? "";
  expect((await stage.store.record({ ...PARENT, uid }))?.spec.traceparent).toBe(TRACEPARENT);
});
