/** Guarantee: a parent that asks for files leaves no directory open, also if it may not read who the workspace belongs to. */
import { execFileSync } from "node:child_process";
import { chmod, mkdtemp, readdir, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { newUid, STAMP_NAME } from "../../../src/shared/protocol/ids.ts";
import { listFiles } from "../../../src/shared/workspace-files.ts";
import { openWorkspace } from "../../../src/worker/tools/workspace.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { refusal } from "../../helpers/parents.ts";

const NOBODY = 65_534;

/** The directories and files at or below `root` that this process has open. */
async function openBelow(root: string): Promise<string[]> {
  const open = await readdir("/proc/self/fd");
  const paths = await Promise.all(open.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => "")));
  return paths.filter((path) => path.startsWith(root));
}

test.runIf(process.platform === "linux")(
  "a workspace whose stamp may not be read is refused and left closed",
  async () => {
    const root = await mkdtemp(join(tmpdir(), "workspaces-"));
    closeAtEnd(() => rm(root, { recursive: true, force: true }));
    const address = { tenant: "default", parentId: "planner-7", uid: newUid() };
    const settings = { root, agentId: "collector", roots: [], expected: false, clock: systemClock };
    const { workspace } = await openWorkspace({ ...settings, ...address });
    await chmod(join(dirname(workspace.directory), STAMP_NAME), 0);
    const before = await openBelow(root);
    // Root may read every file.
    const isRoot = process.geteuid?.() === 0;
    if (isRoot) {
      execFileSync("chown", ["-R", String(NOBODY), root]);
      process.seteuid?.(NOBODY);
      onTestFinished(() => process.seteuid?.(0));
    }
    const listed = listFiles({ root, address, agentId: "collector" });
    await expect(listed).rejects.toMatchObject(refusal("invalid_config", /EACCES/));
    // Without its own rights the process does not see what it has open.
    if (isRoot) process.seteuid?.(0);
    expect(await openBelow(root)).toEqual(before);
  },
);
