/** Guarantee: two openers of one agent's workspace get the same one, however their steps lie between each other. */
import { existsSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";
import { systemClock } from "../../../../src/shared/clock.ts";
import { STAMP_NAME } from "../../../../src/shared/protocol/ids.ts";
import { openWorkspace } from "../../../../src/worker/tools/workspace.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";

it("an opener that another one precedes at each of its steps finds the other's stamp", async () => {
  const root = mkdtempSync(join(tmpdir(), "workspaces-"));
  closeAtEnd(() => rmSync(root, { recursive: true, force: true }));
  const settings = { root, tenant: "t", parentId: "p", agentId: "a", roots: [], expected: true };
  const { workspace } = await openWorkspace({ ...settings, uid: "first", clock: systemClock });
  const { directory } = workspace;
  const stamp = join(dirname(directory), STAMP_NAME);
  // The other opener of "second": each time this one has looked, it does its next step.
  const steps = [
    () => renameSync(directory, `${directory}-former`),
    () => renameSync(stamp, `${stamp}-former`),
    () => {},
    () => writeFileSync(stamp, JSON.stringify({ v: 1, uid: "second", created_at: "" })),
  ];
  const now = () => {
    steps.shift()?.();
    return systemClock.now();
  };
  const opened = await openWorkspace({ ...settings, uid: "second", clock: { ...systemClock, now } });
  expect(opened.state).toBe("missing_stamp");
  expect([steps.length, existsSync(directory)]).toEqual([0, true]);
});
