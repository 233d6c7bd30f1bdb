import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { systemClock } from "../../../../src/shared/clock.ts";
import { leftFiles } from "../../../../src/worker/run/run-workspace.ts";
import { openWorkspace } from "../../../../src/worker/tools/workspace.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";

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

/** A workspace, and what a reply lists of it. */
async function scene() {
  const root = await mkdtemp(join(tmpdir(), "left-"));
  closeAtEnd(() => rm(root, { recursive: true }));
  const address = { tenant: "default", parentId: "p", uid: "u" };
  const where = { ...address, root, agentId: "a" };
  const { workspace } = await openWorkspace({ ...where, roots: [], expected: false, clock: systemClock });
  return { directory: workspace.directory, list: () => leftFiles({ root, address, agentId: "a" }) };
}

it("reads at most 32 MB of all files together for their digests, and lists the others with their size", async () => {
  const { directory, list } = await scene();
  const size_bytes = 20 * 1024 * 1024;
  for (const name of ["a.bin", "b.bin", "c.txt"]) await writeFile(join(directory, name), "c");
  for (const name of ["a.bin", "b.bin"]) await truncate(join(directory, name), size_bytes);
  const digest = { sha256: expect.stringMatching(/^[0-9a-f]{64}$/) };
  expect(await list()).toEqual({
    files: [
      { path: "a.bin", size_bytes, ...digest },
      { path: "b.bin", size_bytes },
      { path: "c.txt", size_bytes: 1, ...digest },
    ],
  });
});

it("leaves out a path of more than 256 bytes, and says that there are more files", async () => {
  const { directory, list } = await scene();
  const long = join(directory, "é".repeat(100), "é".repeat(100));
  await mkdir(long, { recursive: true });
  await writeFile(join(long, "x"), "");
  await writeFile(join(directory, "kept"), "");
  const { files = [], more_files } = await list();
  expect([files.map(({ path }) => path), more_files]).toEqual([["kept"], true]);
});
