/** What a model reads of commands, from a runner whose outcomes are given. */
import { expect, it } from "vitest";
import { bashTool } from "../../../../../src/worker/tools/builtin/bash.ts";
import type { CommandOutcome, Runner } from "../../../../../src/worker/tools/sandbox/runner.ts";
import { openScene } from "../scene.ts";

/** Runs a command whose outcome is `outcome`. */
async function read(command: string, outcome: CommandOutcome): Promise<unknown> {
  const runner: Runner = { kind: "none", protections: [], run: async () => outcome };
  return bashTool(runner).run({ command }, (await openScene()).context());
}

it("many directories that a command was not shown take up a bounded part of its result", async () => {
  const withheld = Array.from({ length: 200 }, (_, n) => `/srv/project-${n} (it cannot be read whole)`);
  const text = String(await read("ls", { output: "done", exitCode: 0, withheld }));
  expect(text).toMatch(/^done\n\[not shown to commands: \/srv\/project-0 /);
  expect(text.length).toBeLessThan(1_600);
});

it("a command with a NUL character is refused, and nothing of it runs", async () => {
  const outcome: CommandOutcome = { output: "it ran", exitCode: 0, withheld: [] };
  await expect(read("echo a\0; rm -rf b", outcome)).rejects.toThrow("The command contains a NUL character.");
});
