/** AG-UI's stream stays one that its clients take, also where a run changes its worker. */
import { expect, test } from "vitest";
import { startLook } from "../../helpers/ag-ui.ts";
import { readEvents } from "../../helpers/api.ts";

test("what a worker left open in AG-UI's stream is ended before the run goes on elsewhere", async () => {
  const { events: url, looks, changeWorker } = await startLook();
  const events: unknown[] = [];
  for await (const { data } of readEvents(`${url}?after=0`)) {
    const { type, stepName, toolCallId, name, rawEvent } = data;
    // Text is told at once, and the step it belongs to with the next commit.
    if (type !== "TEXT_MESSAGE_CHUNK")
      events.push([type, stepName ?? toolCallId ?? name, rawEvent !== undefined]);
    if (type === "RUN_FINISHED") break;
    if (type !== "TOOL_CALL_START" || looks() !== 1) continue;
    await changeWorker();
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
