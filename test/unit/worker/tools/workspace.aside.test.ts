/** Guarantee: files of an earlier agent that cannot be set aside are never shown to the next one, however often it tries. */
import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../../../src/shared/clock.ts";
import { STAMP_NAME } from "../../../../src/shared/protocol/ids.ts";
import { openWorkspace } from "../../../../src/worker/tools/workspace.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";
import { refusal } from "../../../helpers/parents.ts";

const NOBODY = 65_534;

it.runIf(process.geteuid?.() === 0)(
  "a workspace that still has the files of another agent is refused again",
  async () => {
    const root = mkdtempSync(join(tmpdir(), "workspaces-"));
    closeAtEnd(() => rmSync(root, { recursive: true, force: true }));
    chmodSync(root, 0o755);
    const settings = { root, tenant: "t", parentId: "p", agentId: "a", roots: [], clock: systemClock };
    const { workspace } = await openWorkspace({ ...settings, uid: "first", expected: false });
    writeFileSync(join(workspace.directory, "secret.txt"), "of the first");
    // All may add entries, as in /tmp, but only their owner may rename them.
    const above = dirname(workspace.directory);
    for (let each = above; each !== root; each = dirname(each)) chmodSync(each, 0o755);
    chmodSync(above, 0o1777);
    chownSync(join(above, STAMP_NAME), NOBODY, NOBODY);
    process.seteuid?.(NOBODY);
    onTestFinished(() => process.seteuid?.(0));
    for (let tries = 0; tries < 2; tries += 1) {
      const opening = openWorkspace({ ...settings, uid: "second", expected: false });
      await expect(opening).rejects.toMatchObject(refusal("setup_failed"));
    }
  },
);
