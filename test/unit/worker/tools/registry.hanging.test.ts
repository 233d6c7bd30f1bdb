/** Guarantee: work on the workspace that hangs ends at a time limit, and holds up no later call for ever. */
import { expect, it } from "vitest";
import { z } from "zod";
import { runTool } from "../../../../src/worker/tools/registry.ts";
import { defineTool, type Tool } from "../../../../src/worker/tools/tool.ts";
import { type HandClock, handClock } from "../../../helpers/hand-clock.ts";
import { openScene, type Scene, stoppedBy } from "./scene.ts";

const tool = (name: string, run: Tool["run"]): Tool =>
  defineTool({ name, description: "For tests.", input: z.object({}), usesWorkspace: true, run });

/** Begins a call; resolves to the result's text when the call has ended. */
async function begin({ context }: Scene, clock: HandClock, one: Tool): Promise<{ content: Promise<string> }> {
  const call = { id: "toolu_1", name: one.name, input: {} };
  const ended = runTool(one, call, context(), { offered: [one.name], clock, stop: stoppedBy() });
  // It stands in the line for the workspace, or works there.
  await new Promise((resolve) => setImmediate(resolve));
  return { content: ended.then(({ content }) => content) };
}

it("work that goes on after its call holds up the next one for 30 s, and not for ever", async () => {
  const [scene, clock] = [await openScene(), handClock()];
  const order: string[] = [];
  const hangs = tool("hangs", (_input, { workspace }) => workspace.exclusive(() => new Promise(() => {})));
  const writes = tool("writes", (_input, { workspace }) =>
    workspace.exclusive(async () => {
      order.push("written");
      return "done";
    }),
  );
  const first = await begin(scene, clock, hangs);
  const second = await begin(scene, clock, writes);
  clock.advance(120_000);
  expect(await first.content).toMatch(/^hangs did not finish within 120 s/);
  clock.advance(29_999);
  await new Promise((resolve) => setImmediate(resolve));
  expect(order).toEqual([]);
  clock.advance(1);
  expect(await second.content).toBe("done");
  expect(clock.pending).toBe(0);
});

it("a call that waits for its own work on the workspace ends at its time limit", async () => {
  const [scene, clock] = [await openScene(), handClock()];
  const nests = tool("nests", (_input, { workspace }) =>
    workspace.exclusive(() => workspace.exclusive(async () => "never")),
  );
  const { content } = await begin(scene, clock, nests);
  clock.advance(120_000);
  expect(await content).toMatch(/^nests did not finish within 120 s/);
});
