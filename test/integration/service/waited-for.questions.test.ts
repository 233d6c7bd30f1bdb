/** A task that asks, over HTTP: its question is no text of its reply, and does not stay in the channel behind that reply. */
import { expect, test } from "vitest";
import { startApi } from "../../helpers/api.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("a task that asks has no text yet; once it is answered, its question is acked with its reply", async () => {
  const asks = { type: "tool_use" as const, name: "ask_parent", input: { question: "Which one?" } };
  const stage = await openStage({
    scenario: { turns: [{ content: [asks] }, { content: [{ type: "text", text: "done" }] }] },
  });
  await stage.startWorker();
  const parent = stage.parent("planner-7");
  const api = await startApi({ client: stage.client() });
  const asked = api.ask("POST", "/v1/parents/planner-7/tasks?wait=30", { body: { prompt: "work" } });
  await until(async () => (await parent.list())[0]?.status === "waiting");
  const text = "/v1/parents/planner-7/agents/task/reply";
  expect(await api.ask("GET", text)).toMatchObject({
    status: 404,
    body: { code: "not_found", detail: expect.stringContaining("has said nothing in run 1 yet") },
  });
  await parent.answer("task", "that one");
  expect(await asked).toMatchObject({ status: 200, body: { summary: "done" } });
  expect(await api.ask("GET", text)).toMatchObject({ status: 200, body: { run: 1, text: "done" } });
  const { replies } = stage.keys.parent({ tenant: parent.tenant, parentId: parent.parentId });
  await until(async () => (await stage.redis.xlen(replies)) === 0, {
    what: "an empty channel",
    timeoutMs: 10_000,
  });
});
