/** A stream of a parent's channel names the kind of each entry, so a browser listens to questions apart from replies. */
import { expect, test } from "vitest";
import { readEvents, startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

const ASK = { type: "tool_use" as const, name: "ask_parent", input: { question: "Which colour?" } };

test("a question comes as question, the reply behind it as reply", async () => {
  const turns = [{ content: [ASK] }, { content: [{ type: "text" as const, text: "painted" }] }];
  const stage = await openStage({ scenario: { turns } });
  await stage.startWorker();
  const api = await startApi({ client: stage.client() });
  const path = "/v1/parents/planner-7";
  const body = { prompt: "paint", tools: ["ask_parent"] };
  const { agent_id } = (await api.ask("POST", `${path}/tasks`, { body })).body;
  const seen: unknown[] = [];
  for await (const { event, data } of readEvents(`${api.url}${path}/replies`)) {
    seen.push([event, data.kind]);
    if (event === "reply") break;
    await api.ask("POST", `${path}/agents/${agent_id}/answers`, { body: { text: "blue" } });
  }
  expect(seen).toEqual([
    ["question", "question"],
    ["reply", "reply"],
  ]);
});
