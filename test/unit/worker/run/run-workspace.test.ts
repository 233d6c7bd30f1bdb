import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, it } from "vitest";

/** Starts a program that modes keep out, also where we are root. */
const ORDINARY =
  process.getuid?.() === 0
    ? ["/usr/bin/setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    : ["/usr/bin/env"];

it("says of a workspace that its agent has locked that files may be in it", async () => {
  const code = `
    import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
    import { systemClock } from "./src/shared/clock.ts";
    import { leftFiles } from "./src/worker/run/run-workspace.ts";
    import { openWorkspace } from "./src/worker/tools/workspace.ts";
    const root = await mkdtemp("/tmp/locked-");
    const address = { tenant: "default", parentId: "p", uid: "u" };
    const { workspace } = await openWorkspace({ ...address, root, agentId: "a", roots: [], expected: false, clock: systemClock });
    await writeFile(workspace.directory + "/kept", "");
    for (const mode of [0, 0o700]) {
      await chmod(workspace.directory, mode);
      const { files = [], more_files } = await leftFiles({ root, address, agentId: "a" });
      console.log(files.map(({ path }) => path).join(), more_files);
    }
    await rm(root, { recursive: true });
  `;
  const node = [process.execPath, "--import", "tsx", "--input-type=module", "--eval", code];
  const [file = "", ...args] = [...ORDINARY, ...node];
  const { stdout } = await promisify(execFile)(file, args);
  expect(stdout).toBe(" true\nkept undefined\n");
});
