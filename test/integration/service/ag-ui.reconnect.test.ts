/** A client of AG-UI's stream that comes back in the middle of a run gets the ends of what it saw begin. */
import { expect, test } from "vitest";
import { startLook } from "../../helpers/ag-ui.ts";
import { readEvents } from "../../helpers/api.ts";

test("a call that was open before the client came back is ended before its run goes on elsewhere, and no other part", async () => {
  const { events: url, changeWorker } = await startLook();
  let seen = "";
  for await (const { id, data } of readEvents(`${url}?after=0`)) {
    seen = id ?? seen;
    if (data.type === "TOOL_CALL_START") break;
  }
  const events: unknown[] = [];
  const headers = { "Last-Event-ID": seen };
  const again = readEvents(url, { headers });
  await changeWorker();
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
