/** When the list of a workspace ends for its caller's abort. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { newUid } from "../../../src/shared/protocol/ids.ts";
import { listFiles } from "../../../src/shared/workspace-files.ts";
import { openWorkspace } from "../../../src/worker/tools/workspace.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";

/** A signal that aborts after so many looks at it, and the number of looks. */
function abortsAfter(most: number) {
  let looks = 0;
  const signal: AbortSignal = Object.create(AbortSignal.prototype, {
    aborted: { get: () => ++looks > most },
  });
  return { signal, looks: () => looks };
}

async function openPlace() {
  const root = await mkdtemp(join(tmpdir(), "workspaces-"));
  closeAtEnd(() => rm(root, { recursive: true, force: true }));
  const agent = { tenant: "default", parentId: "planner-7", uid: newUid() };
  const options = { root, ...agent, agentId: "a", roots: [], expected: false, clock: systemClock };
  const { workspace } = await openWorkspace(options);
  return { directory: workspace.directory, address: { root, address: agent, agentId: "a" } };
}

test("a list ends at its abort also where there are only directories, which an agent can make by the thousand", async () => {
  const { directory, address } = await openPlace();
  for (let n = 0; n < 20; n++) await mkdir(join(directory, `${n}`));
  const { signal, looks } = abortsAfter(1);
  await listFiles(address, { signal });
  expect(looks()).toBeGreaterThan(1);
  expect(looks()).toBeLessThan(5);
});

test("a list ends at its abort also among the files of one directory", async () => {
  const { directory, address } = await openPlace();
  for (let n = 0; n < 20; n++) await writeFile(join(directory, `${n}`), "");
  // The names themselves are read with a look at each.
  const { signal } = abortsAfter(24);
  expect((await listFiles(address, { signal })).length).toBeLessThan(10);
});
