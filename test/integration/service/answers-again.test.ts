/** An answer whose receipt was lost is given again. */
import { expect, test } from "vitest";
import { startApi } from "../../helpers/api.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const AGENT = "/v1/parents/planner-7/agents/task";
const ASK = { type: "tool_use", name: "ask_parent", input: { question: "Which colour?" } } as const;

test("an answer is acknowledged again when its agent has ended, until the ack of the end; another one is not", async () => {
  const stage = await openStage({
    scenario: { turns: [{ content: [ASK] }, { content: [{ type: "text", text: "done" }] }] },
  });
  await stage.startWorker();
  const api = await startApi({ client: stage.client() });
  const body = { prompt: "paint", tools: ["ask_parent"] };
  expect((await api.ask("POST", "/v1/parents/planner-7/tasks", { body })).status).toBe(202);
  const agent = async () => (await api.ask("GET", AGENT)).body;
  const question_id: string = await until(async () => (await agent()).questions?.[0]?.question_id);
  const answer = (text: string, id = question_id) =>
    api.ask("POST", `${AGENT}/answers`, { body: { text, question_id: id } });
  expect((await answer("blue")).status).toBe(200);
  await until(async () => (await agent()).status === "ended");
  expect(await answer("blue")).toMatchObject({
    status: 200,
    body: { status: "answered", question_id, agent_status: "ended" },
  });
  for (const refused of [await answer("red"), await answer("blue", "0/another")])
    expect(refused).toMatchObject({ status: 409, body: { code: "agent_ended" } });
  await stage.parent().waitAny(["task"]);
  expect((await answer("blue")).status).toBe(409);
});
