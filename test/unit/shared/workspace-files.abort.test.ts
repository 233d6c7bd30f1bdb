/** When the list of a workspace ends for its caller's abort. */
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { newUid } from "../../../src/shared/protocol/ids.ts";
import { listFiles } from "../../../src/shared/workspace-files.ts";
import { openWorkspace } from "../../../src/worker/tools/workspace.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";

/** A signal that aborts when it is looked at for the second time, and the number of looks. */
function abortsAtSecondLook() {
  let looks = 0;
  const signal: AbortSignal = Object.create(AbortSignal.prototype, { aborted: { get: () => ++looks > 1 } });
  return { signal, looks: () => looks };
}

test("a list ends at its abort also where there are only directories, which an agent can make by the thousand", async () => {
  const root = await mkdtemp(join(tmpdir(), "workspaces-"));
  closeAtEnd(() => rm(root, { recursive: true, force: true }));
  const agent = { tenant: "default", parentId: "planner-7", uid: newUid() };
  const options = { root, ...agent, agentId: "a", roots: [], expected: false, clock: systemClock };
  const { workspace } = await openWorkspace(options);
  for (let n = 0; n < 20; n++) await mkdir(join(workspace.directory, `${n}`));
  const { signal, looks } = abortsAtSecondLook();
  await listFiles({ root, address: agent, agentId: "a" }, { signal });
  expect(looks()).toBeGreaterThan(1);
  expect(looks()).toBeLessThan(5);
});
