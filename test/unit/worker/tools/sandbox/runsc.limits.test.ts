import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { createRunsc, ociConfig } from "../../../../../src/worker/tools/sandbox/runsc.ts";
import { openScene } from "../scene.ts";

it("a command in gVisor has the limits of every command before it is read", () => {
  const mounts = { areas: [], files: [], directories: [], withheld: [] };
  const { args } = ociConfig("/host/workspace", mounts, "/bundle", 65_534).process;
  expect(args.at(-1)).toMatch(
    /^exec 2>&1\nulimit -c 0 -f 1048576 -d 4194304 -u 512 -n 1024 -t 600\necho ready/,
  );
});

it("a command that was cancelled before its start starts nothing, and is not told as a broken sandbox", async () => {
  const { base, workspace } = await openScene();
  const runsc = join(base, "runsc");
  writeFileSync(runsc, "#!/bin/bash\nexit 1\n", { mode: 0o755 });
  const runner = createRunsc({ clock: systemClock, asRoot: false, runsc });
  const running = runner?.run({ script: "true", workspace, timeoutMs: 20_000, signal: AbortSignal.abort() });
  await expect(running).rejects.toThrow(/^Cancelled before the command was started\.$/);
});
