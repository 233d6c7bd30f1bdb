/** A client of AG-UI's stream that comes back in the middle of a run gets the ends of what it saw begin. */
import { expect, test } from "vitest";
import { z } from "zod";
import { defineTool } from "../../../src/worker/tools/tool.ts";
import { readEvents, startApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

const LOOK = { content: [{ type: "tool_use" as const, id: "t1", name: "look", input: {} }] };

test("a call that was open before the client came back is ended before its run goes on elsewhere, and no other part", async () => {
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
  let seen = "";
  for await (const { id, data } of readEvents(`${door.url}${path}/events?after=0`)) {
    seen = id ?? seen;
    if (data.type === "TOOL_CALL_START") break;
  }
  const events: unknown[] = [];
  const headers = { "Last-Event-ID": seen };
  const again = readEvents(`${door.url}${path}/events`, { headers });
  await first.stop();
  await scripted.startWorker({ tools: [look] });
  for await (const { data } of again) {
    const { type, toolCallId, name, rawEvent } = data;
    if (type !== "TEXT_MESSAGE_CHUNK") events.push([type, toolCallId ?? name, rawEvent !== undefined]);
    if (type === "RUN_FINISHED") break;
  }
  expect(events).toEqual([
    ["TOOL_CALL_END", "t1", false],
    ["CUSTOM", "released", true],
    ["CUSTOM", "run_continued", true],
    ["TOOL_CALL_START", "t1", true],
    ["TOOL_CALL_END", "t1", true],
    ["STEP_STARTED", undefined, true],
    ["STEP_FINISHED", undefined, true],
    ["RUN_FINISHED", undefined, true],
  ]);
});
