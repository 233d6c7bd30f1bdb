/** Guarantee: a command begins where the agent's last one ended, also under the next worker and in the next run. */
import { realpath } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { bashTool } from "../../../../../src/worker/tools/builtin/bash.ts";
import { createUnconfined } from "../../../../../src/worker/tools/sandbox/unconfined.ts";
import { openWorkspace } from "../../../../../src/worker/tools/workspace.ts";
import { openScene } from "../scene.ts";

it("the working directory carries over to another worker, and to no other agent of the name", async () => {
  const scene = await openScene();
  const underNewWorker = async (uid: string, command: string) => {
    const ids = { tenant: "default", parentId: "p", agentId: "a1", uid };
    const options = { root: join(scene.base, "state"), roots: [], expected: true, clock: systemClock };
    const { workspace } = await openWorkspace({ ...ids, ...options });
    const tool = bashTool(createUnconfined(systemClock));
    return tool.run({ command }, { ...scene.context(), workspace });
  };
  const home = await realpath(scene.home);
  await underNewWorker("uid-a1", "mkdir -p deep/er && cd deep/er");
  expect(await underNewWorker("uid-a1", "pwd; cd ..")).toBe(join(home, "deep/er"));
  expect(await underNewWorker("uid-a1", "pwd")).toBe(join(home, "deep"));
  await underNewWorker("uid-a1", 'cd "$HOME/.."');
  expect(await underNewWorker("uid-other", "pwd")).toBe(home);
});
