/** A run that loses its worker in the middle of a tool call, and an API that tells of it in AG-UI's stream. */
import { z } from "zod";
import { defineTool } from "../../src/worker/tools/tool.ts";
import { openStage } from "../stage/stage.ts";
import { startApi } from "./api.ts";

const LOOK = { content: [{ type: "tool_use" as const, id: "t1", name: "look", input: {} }] };

/** Starts the run. `changeWorker` stops its worker, whose call has no end, and starts another one. `events`: URL of the stream. */
export async function startLook() {
  const stage = await openStage({
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
  const first = await stage.startWorker({ drainGraceMs: 0, tools: [look] });
  const door = await startApi({ client: stage.client() });
  await door.ask("POST", "/v1/parents/agui/tasks", { body: { prompt: "Look", tools: ["look"] } });
  return {
    events: `${door.url}/v1/parents/agui/events`,
    looks: () => looks,
    async changeWorker() {
      await first.stop();
      await stage.startWorker({ tools: [look] });
    },
  };
}
