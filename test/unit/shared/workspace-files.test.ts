import { execFileSync } from "node:child_process";
import { chmod, link, mkdir, mkdtemp, rm, symlink, truncate, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { newUid } from "../../../src/shared/protocol/ids.ts";
import { listFiles, readWorkspaceFile, type WorkspaceAddress } from "../../../src/shared/workspace-files.ts";
import { openWorkspace } from "../../../src/worker/tools/workspace.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { refusal } from "../../helpers/parents.ts";

const NOBODY = 65_534;

async function scene(files: Record<string, string> = {}) {
  const root = await mkdtemp(join(tmpdir(), "workspaces-"));
  closeAtEnd(() => rm(root, { recursive: true, force: true }));
  const uid = newUid();
  const owner = { tenant: "default", parentId: "planner-7", uid };
  const workspace: WorkspaceAddress = { root, address: owner, agentId: "collector" };
  // The worker's own code makes the workspace: both sides must mean the same place.
  const opened = await openWorkspace({
    root,
    ...owner,
    agentId: "collector",
    roots: [],
    expected: false,
    clock: systemClock,
  });
  const { directory } = opened.workspace;
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(directory, path)), { recursive: true });
    await writeFile(join(directory, path), text);
  }
  await writeFile(join(root, "secret.txt"), "secret");
  return { root, workspace, directory };
}

test("files are listed with their paths, sizes and times, sorted, in subdirectories, too", async () => {
  const { workspace, directory } = await scene({ "b.txt": "12", "a/deep/c.txt": "1", "a.txt": "" });
  await utimes(join(directory, "b.txt"), 0, 1_000);
  await writeFile(join(directory, ".subagent-queue-draft-1"), "half");
  const files = await listFiles(workspace);
  expect(files.map(({ path, size_bytes }) => [path, size_bytes])).toEqual([
    ["a.txt", 0],
    ["a/deep/c.txt", 1],
    ["b.txt", 2],
  ]);
  expect(files[2]?.modified_at).toBe("1970-01-01T00:16:40.000Z");
});

test("a file is read as its bytes, also by a path with dots in it", async () => {
  const { workspace } = await scene({ "a/b.txt": "säße", "empty.txt": "" });
  expect((await readWorkspaceFile(workspace, "./a//b.txt")).toString()).toBe("säße");
  expect(await readWorkspaceFile(workspace, "empty.txt")).toHaveLength(0);
});

test("nothing outside the workspace is shown or read, by whatever path or link", async () => {
  const { root, workspace, directory } = await scene({ "in.txt": "in" });
  await symlink(join(root, "secret.txt"), join(directory, "leaf"));
  await symlink(root, join(directory, "branch"));
  await symlink("in.txt", join(directory, "inner"));
  await link(join(root, "secret.txt"), join(directory, "hard"));
  expect((await listFiles(workspace)).map((file) => file.path)).toEqual(["in.txt"]);
  const paths = [
    "leaf",
    "branch/secret.txt",
    "inner",
    "hard",
    "../.stamp.json",
    "a/../../.stamp.json",
    join(directory, "in.txt"),
    "in.txt\0",
    "in.txt/x",
    "branch",
    "",
    ".",
    "nothing",
    "x".repeat(5_000),
  ];
  for (const path of paths) {
    await expect(readWorkspaceFile(workspace, path), path).rejects.toMatchObject(refusal("unknown_file"));
  }
});

test("a file or a directory that an agent has locked hides none of the others", async () => {
  const { root, workspace, directory } = await scene({ "a.txt": "1", "b/c.txt": "2", "d/e.txt": "3" });
  for (const path of ["a.txt", "b"]) await chmod(join(directory, path), 0);
  // Root may read every file.
  if (process.geteuid?.() === 0) {
    execFileSync("chown", ["-R", String(NOBODY), root]);
    process.seteuid?.(NOBODY);
    onTestFinished(() => process.seteuid?.(0));
  }
  expect((await listFiles(workspace)).map(({ path }) => path)).toEqual(["d/e.txt"]);
  await expect(readWorkspaceFile(workspace, "a.txt")).rejects.toMatchObject(
    refusal("invalid_config", /EACCES/),
  );
  await chmod(directory, 0);
  await expect(listFiles(workspace)).rejects.toMatchObject(
    refusal("invalid_config", /rights of the workers/),
  );
  await chmod(directory, 0o700);
  await chmod(join(directory, "b"), 0o700);
});

test("the workspace itself is not followed when it is a link", async () => {
  const { root, workspace, directory } = await scene({ "in.txt": "in" });
  await rm(directory, { recursive: true });
  await symlink(root, directory);
  expect(await listFiles(workspace)).toEqual([]);
  await expect(readWorkspaceFile(workspace, "secret.txt")).rejects.toMatchObject(refusal("unknown_file"));
});

test("a workspace of another uid, or none at all, is empty", async () => {
  const { workspace } = await scene({ "in.txt": "in" });
  const other = { ...workspace, address: { ...workspace.address, uid: newUid() } };
  expect(await listFiles(other)).toEqual([]);
  await expect(readWorkspaceFile(other, "in.txt")).rejects.toMatchObject(refusal("unknown_file"));
  expect(await listFiles({ ...workspace, agentId: "nobody" })).toEqual([]);
  expect(await listFiles({ ...workspace, root: join(workspace.root, "nowhere") })).toEqual([]);
});

test("a file that is too large to be held in memory is refused with its size", async () => {
  const { workspace, directory } = await scene({ big: "" });
  await truncate(join(directory, "big"), 10 * 1024 ** 3);
  await expect(readWorkspaceFile(workspace, "big")).rejects.toMatchObject(
    refusal("invalid_input", /10737418240/),
  );
});
