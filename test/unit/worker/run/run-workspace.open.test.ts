import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../../../src/shared/clock.ts";
import { StopSignal } from "../../../../src/shared/stop-signal.ts";
import { leftFiles, RunWorkspace } from "../../../../src/worker/run/run-workspace.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";

const address = { tenant: "default", parentId: "p", uid: "u" };

/** The workspace of a run on a disk without files of its agent. */
async function workspaceOf(expected: boolean) {
  const root = await mkdtemp(join(tmpdir(), "run-"));
  closeAtEnd(() => rm(root, { recursive: true }));
  const options = { ...address, root, agentId: "a", roots: [], expected, clock: systemClock };
  const workspace = new RunWorkspace(options, new StopSignal());
  return { root, workspace };
}

test("a run that opens its workspace again has the same one, in which writes wait for each other", async () => {
  const { workspace } = await workspaceOf(false);
  expect(workspace.opened).toBeUndefined();
  const [first, second] = await Promise.all([workspace.open(), workspace.open()]);
  expect(second).toBe(first);
  expect(await workspace.open()).toBe(first);
  expect(workspace.opened).toBe(first);
});

test("files are gone only where the agent had left some", async () => {
  for (const expected of [false, true]) {
    const { workspace } = await workspaceOf(expected);
    expect(workspace.areFilesGone).toBe(false);
    await workspace.open();
    expect(workspace.areFilesGone).toBe(expected);
  }
});

test("a reply lists 64 files, and says that there are more", async () => {
  const { root, workspace } = await workspaceOf(false);
  const { directory } = await workspace.open();
  const list = () => leftFiles({ root, address, agentId: "a" });
  for (let k = 0; k < 64; k++) await writeFile(join(directory, `${k}.txt`), "");
  const whole = await list();
  expect([whole.files?.length, whole.more_files]).toEqual([64, undefined]);
  await writeFile(join(directory, "more.txt"), "");
  const cut = await list();
  expect([cut.files?.length, cut.more_files]).toEqual([64, true]);
});
