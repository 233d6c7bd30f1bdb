/** Guarantee: a command in gVisor may write in its workspace, and a file that is no program is no gVisor. */
import { chmodSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "../../../../../src/shared/clock.ts";
import { UNPRIVILEGED } from "../../../../../src/worker/tools/sandbox/mount.ts";
import { createRunsc } from "../../../../../src/worker/tools/sandbox/runsc.ts";
import { openScene } from "../scene.ts";

const asRoot = process.getuid?.() === 0;

it("the user of its commands owns the workspace when one begins", async () => {
  const { base, workspace, put } = await openScene();
  const file = await put("notes.txt", "written by a tool of the worker");
  const runsc = join(base, "runsc");
  writeFileSync(runsc, `#!/bin/bash\nstat -c %u '${workspace.directory}' '${file}'\n`, { mode: 0o755 });
  const { signal } = new AbortController();
  const runner = createRunsc({ clock: systemClock, asRoot, runsc });
  const outcome = await runner?.run({ script: "true", workspace, timeoutMs: 20_000, signal });
  const owner = asRoot ? UNPRIVILEGED : statSync(base).uid;
  expect(outcome?.output.trim().split("\n")).toEqual([`${owner}`, `${owner}`]);
});

it("a file without the right to run it makes no runner", async () => {
  const { base } = await openScene();
  const runsc = join(base, "runsc");
  writeFileSync(runsc, "#!/bin/bash\n", { mode: 0o644 });
  expect(createRunsc({ clock: systemClock, asRoot, runsc })).toBeUndefined();
  chmodSync(runsc, 0o755);
  expect(createRunsc({ clock: systemClock, asRoot, runsc })?.kind).toBe("runsc");
});
