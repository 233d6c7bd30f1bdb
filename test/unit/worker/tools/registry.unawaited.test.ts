/** Work on a workspace that a tool begins and does not await. */
import { expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { systemClock } from "../../../../src/shared/clock.ts";
import { StopSignal } from "../../../../src/shared/stop-signal.ts";
import { NO_WORKSPACE } from "../../../../src/worker/run/run-workspace.ts";
import { runTool } from "../../../../src/worker/tools/registry.ts";
import { defineTool } from "../../../../src/worker/tools/tool.ts";

it("its failure ends no process, also where the tool was given no workspace", async () => {
  const unhandled: unknown[] = [];
  const note = (error: unknown) => void unhandled.push(error);
  process.on("unhandledRejection", note);
  onTestFinished(() => void process.off("unhandledRejection", note));
  const tool = defineTool({
    name: "forgets",
    description: "Forgets to await.",
    input: z.object({}),
    usesWorkspace: false,
    async run(_input, { workspace }) {
      void workspace.exclusive(() => Promise.reject(new Error("late")));
      return "done";
    },
  });
  const caller = { agentId: "a", uid: "sa-0", run: 1, toolUseId: "1", tellParent: () => {} };
  const options = { offered: ["forgets"], clock: systemClock, stop: new StopSignal() };
  const call = { id: "1", name: "forgets", input: {} };
  const outcome = await runTool(tool, call, { ...caller, workspace: NO_WORKSPACE }, options);
  await new Promise(setImmediate);
  expect([outcome.content, unhandled]).toEqual(["done", []]);
});
