/** The key of a resume may stand in its body, as that of a spawn may; one in the header must then be the same. */
import { expect, test } from "vitest";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

const PATH = "/v1/parents/planner-7";

test("an agent is resumed once under the request_key of the body, and is found at the address of the answer", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const api = await startApi({ client: stage.client() });
  await api.ask("PUT", PATH, { body: { transcript_ms: 3_600_000 } });
  await api.ask("POST", `${PATH}/tasks?wait=60`, { body: { prompt: "Say hello" } });
  const resume = (request_key: string, headers = {}) => {
    const body = { text: "Once more", request_key };
    return api.ask("POST", `${PATH}/agents/task/resume`, { body, headers });
  };
  const first = await resume("once");
  expect(first.headers.get("location")).toBe(`${PATH}/agents/${first.body.agent_id}`);
  expect(await resume("once")).toMatchObject({ status: 201, body: { agent_id: first.body.agent_id } });
  expect((await resume("twice")).body.agent_id).not.toBe(first.body.agent_id);
  const differing = await resume("once", { "idempotency-key": "another" });
  expect(differing).toMatchObject({ status: 400, body: { code: "invalid_input" } });
});
