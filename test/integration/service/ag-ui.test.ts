/** AG-UI's stream stays one that its clients take, also where a run changes its worker. */
import { expect, test } from "vitest";
import { z } from "zod";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { readEvents, startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

const LOOK = { content: [{ type: "tool_use" as const, id: "t1", name: "look", input: {} }] };

test("what a worker left open in AG-UI's stream is ended before the run goes on elsewhere", async () => {
  const scripted = await openStage({
    scenario: { turns: [LOOK, { content: [{ type: "text", text: "done" }] }] },
  });
  let looks = 0;
  const look = defineTool({
    name: "look",
    description: "Looks; the first look has no end.",
    input: z.object({}),
    idempotent: true,
    run: () => (looks++ === 0 ? new Promise<string>(() => {}) : Promise.resolve("seen")),
  });
  const first = await scripted.startWorker({ drainGraceMs: 0, tools: [look] });
  const door = await startApi({ client: scripted.client() });
  const path = "/v1/parents/agui";
  await door.ask("POST", `${path}/tasks`, { body: { prompt: "Look", tools: ["look"] } });
  const events: unknown[] = [];
  for await (const { data } of readEvents(`${door.url}${path}/events?after=0`)) {
    const { type, stepName, toolCallId, name, rawEvent } = data;
    // Text is told at once, and the step it belongs to with the next commit.
    if (type !== "TEXT_MESSAGE_CHUNK")
      events.push([type, stepName ?? toolCallId ?? name, rawEvent !== undefined]);
    if (type === "RUN_FINISHED") break;
    if (type !== "TOOL_CALL_START" || looks !== 1) continue;
    await first.stop();
    await scripted.startWorker({ tools: [look] });
  }
  const from = events.findIndex((each) => JSON.stringify(each).includes("TOOL_CALL_START"));
  expect(events.slice(from)).toEqual([
    ["TOOL_CALL_START", "t1", true],
    ["TOOL_CALL_END", "t1", false],
    ["CUSTOM", "released", true],
    ["CUSTOM", "run_continued", true],
    ["TOOL_CALL_START", "t1", true],
    ["TOOL_CALL_END", "t1", true],
    ["STEP_STARTED", "turn 2", true],
    ["STEP_FINISHED", "turn 2", true],
    ["RUN_FINISHED", undefined, true],
  ]);
});
