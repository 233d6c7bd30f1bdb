/** AG-UI's stream stays one that its clients take, also where a run changes its worker. */
import { expect, test } from "vitest";
import { readEvents, startApi } from "../../helpers/api.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

const LOOK = { content: [{ type: "tool_use" as const, id: "t1", name: "glob", input: { pattern: "*" } }] };

test("what a worker left open in AG-UI's stream is ended before the run goes on elsewhere", async () => {
  const slow = { content: [{ type: "text" as const, text: "done" }], latencyMs: 1_500 };
  const scripted = await openStage({ scenario: { turns: [LOOK, slow] } });
  const first = await scripted.startWorker({ drainGraceMs: 0 });
  const door = await startApi({ client: scripted.client() });
  const path = "/v1/parents/agui";
  await door.ask("POST", `${path}/tasks`, { body: { prompt: "Look" } });
  const events: unknown[] = [];
  for await (const { data } of readEvents(`${door.url}${path}/events?after=0`)) {
    const { type, stepName, name, rawEvent } = data;
    // Text is told at once, and the step it belongs to with the next commit.
    if (type !== "TEXT_MESSAGE_CHUNK") events.push([type, stepName ?? name, rawEvent !== undefined]);
    if (type === "RUN_FINISHED") break;
    if (events.length !== 6) continue;
    await until(() => scripted.offline.inFlight === 1);
    await first.stop();
    await scripted.startWorker();
  }
  expect(events.slice(5)).toEqual([
    ["STEP_STARTED", "turn 2", true],
    ["STEP_FINISHED", "turn 2", false],
    ["CUSTOM", "released", true],
    ["CUSTOM", "run_continued", true],
    ["STEP_STARTED", "turn 2", true],
    ["STEP_FINISHED", "turn 2", true],
    ["RUN_FINISHED", undefined, true],
  ]);
});
