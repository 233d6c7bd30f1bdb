/** Guarantee: nothing watches the disk of a command that is over, however its runner ended it. */
import { expect, it } from "vitest";
import { bashTool } from "../../../../../src/worker/tools/builtin/bash.ts";
import type { Runner } from "../../../../../src/worker/tools/sandbox/runner.ts";
import { handClock } from "../../../../helpers/hand-clock.ts";
import { openScene } from "../scene.ts";

it("a runner that throws before it runs anything leaves no watch", async () => {
  const clock = handClock();
  const runner: Runner = {
    kind: "none",
    protections: [],
    run() {
      throw new Error("no sandbox today");
    },
  };
  const running = bashTool(runner, clock).run({ command: "ls" }, (await openScene()).context());
  await expect(running).rejects.toThrow("no sandbox today");
  expect(clock.pending).toBe(0);
});
