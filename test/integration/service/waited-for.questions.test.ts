/** Guarantee: a task that was waited for over HTTP leaves nothing in the channel: its reply was the answer. */
import { expect, test } from "vitest";
import { startApi } from "../../helpers/api.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

test("the questions of a task that were answered meanwhile are acked with its reply", async () => {
  const asks = { type: "tool_use" as const, name: "ask_parent", input: { question: "Which one?" } };
  const stage = await openStage({
    scenario: { turns: [{ content: [asks] }, { content: [{ type: "text", text: "done" }] }] },
  });
  await stage.startWorker();
  const parent = stage.parent("planner-7");
  const api = await startApi({ client: stage.client() });
  const asked = api.ask("POST", "/v1/parents/planner-7/tasks?wait=30", { body: { prompt: "work" } });
  await until(async () => (await parent.list())[0]?.status === "waiting");
  await parent.answer("task", "that one");
  expect(await asked).toMatchObject({ status: 200, body: { summary: "done" } });
  const { replies } = stage.keys.parent({ tenant: parent.tenant, parentId: parent.parentId });
  await until(async () => (await stage.redis.xlen(replies)) === 0, {
    what: "an empty channel",
    timeoutMs: 10_000,
  });
});
