/** Guarantee: a refusal over HTTP speaks of the request, not of the library's calls; a cursor that lies in the future is refused. */
import { expect, test } from "vitest";
import { agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

const FAR = "9999999999999-0";

test("a refusal names the part of the request that is wrong", async () => {
  const api = await startApi({ client: (await openStage()).client(), mounts: [agentProtocol()] });
  const planner = "/v1/parents/planner-7";
  for (const [path, body, detail] of [
    ["/v1/parents/-/tasks", { prompt: "Go" }, "path refused, nothing was done: parent: 1 to 64 characters"],
    [`${planner}/agents/a/messages`, {}, "body refused, nothing was done: text: is missing"],
    [
      `${planner}/tasks?wait=301`,
      { prompt: "Go" },
      "query refused, nothing was done: wait: must be at most 300",
    ],
  ] as const) {
    const refused = await api.ask("POST", path, { body });
    expect(refused).toMatchObject({ status: 400, body: { detail: expect.stringContaining(detail) } });
  }
  const { thread_id } = (await api.ask("POST", "/agent-protocol/threads", { body: {} })).body;
  const thread = await api.ask("GET", `/agent-protocol/threads/${thread_id}/state`, {
    headers: { "x-parent-id": "-" },
  });
  expect(thread.body.detail).toContain("header refused, nothing was done: X-Parent-Id: 1 to 64 characters");
  const nested = await api.ask("GET", "/v1/parents/sa-0123456789abcdef01234567/agents");
  expect(nested).toMatchObject({ status: 403, body: { code: "nested_spawn" } });
});

test("a cursor in the future is refused at once: its reader would wait in vain; one that is a little ahead is not", async () => {
  const stage = await openStage();
  const api = await startApi({ client: stage.client() });
  const soon = `${Date.now() + 3_600_000}-0`;
  const stream = { accept: "text/event-stream" };
  for (const [path, headers] of [
    ["replies", {}],
    ["replies", stream],
    ["events", stream],
  ] as const) {
    const at = (after: string) => `/v1/parents/planner-7/${path}?after=${after}`;
    const refused = { status: 400, body: { detail: expect.stringContaining("lies in the future") } };
    expect(await fetch(api.url + at(soon), { method: "HEAD", headers })).toMatchObject({ status: 200 });
    expect(await api.ask("GET", at(FAR), { headers })).toMatchObject(refused);
  }
  const reading = stage.parent("planner-7").events({ after: FAR }).next();
  await expect(reading).rejects.toMatchObject({ code: "invalid_input", details: { cursor: FAR } });
});
