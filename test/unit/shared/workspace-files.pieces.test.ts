/** Guarantee: a large file comes whole, in pieces of bounded size; a path names a file from the workspace's top or none. */
import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, readlink, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../../src/shared/clock.ts";
import { newUid } from "../../../src/shared/protocol/ids.ts";
import {
  listFiles,
  openWorkspaceFile,
  piecesOf,
  readWorkspaceFile,
  type WorkspaceAddress,
} from "../../../src/shared/workspace-files.ts";
import { openWorkspace } from "../../../src/worker/tools/workspace.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { refusal } from "../../helpers/parents.ts";

async function scene(files: Record<string, Buffer | string>) {
  const root = await mkdtemp(join(tmpdir(), "pieces-"));
  closeAtEnd(() => rm(root, { recursive: true, force: true }));
  const address = { tenant: "default", parentId: "planner-7", uid: newUid() };
  const workspace: WorkspaceAddress = { root, address, agentId: "collector" };
  const more = { root, agentId: "collector", roots: [], expected: false, clock: systemClock };
  const { directory } = (await openWorkspace({ ...address, ...more })).workspace;
  for (const [name, content] of Object.entries(files)) await writeFile(join(directory, name), content);
  return { workspace, directory };
}

/** Descriptors of this process that lead into `directory`. */
async function openIn(directory: string): Promise<string[]> {
  const links = await Promise.all(
    (await readdir("/proc/self/fd")).map((name) => readlink(`/proc/self/fd/${name}`).catch(() => "")),
  );
  return links.filter((path) => path.startsWith(directory));
}

test("a file comes whole, in pieces of at most 64 KiB", async () => {
  const content = randomBytes(200_001);
  const { workspace } = await scene({ "large.bin": content });
  const file = await openWorkspaceFile(workspace, "large.bin");
  const pieces: Buffer[] = [];
  for await (const piece of piecesOf(file)) pieces.push(piece);
  await file.handle.close();
  expect(pieces.map(({ length }) => length)).toEqual([65_536, 65_536, 65_536, 3_393]);
  expect(Buffer.concat(pieces).equals(content)).toBe(true);
});

test("an empty file has no pieces", async () => {
  const { workspace } = await scene({ "empty.txt": "" });
  const file = await openWorkspaceFile(workspace, "empty.txt");
  expect(await piecesOf(file).next()).toEqual({ done: true, value: undefined });
  await file.handle.close();
});

test("a file that becomes shorter meanwhile is a conflict, and does not end as if it were whole", async () => {
  const { workspace, directory } = await scene({ "log.txt": randomBytes(100_000) });
  const file = await openWorkspaceFile(workspace, "log.txt");
  const pieces = piecesOf(file);
  expect((await pieces.next()).value).toHaveLength(65_536);
  await truncate(join(directory, "log.txt"), 65_536);
  await expect(pieces.next()).rejects.toMatchObject(refusal("conflict"));
  await file.handle.close();
});

test("no path begins at the host's top, and no other value names a file", async () => {
  const { workspace } = await scene({ "in.txt": "in" });
  for (const path of ["/in.txt", "//in.txt", "in.txt\0", undefined, 42, ["in.txt"]])
    await expect(readWorkspaceFile(workspace, path as string)).rejects.toMatchObject(refusal("unknown_file"));
  expect((await readWorkspaceFile(workspace, "in.txt/")).toString()).toBe("in");
});

test("exactly as many files as asked for are listed", async () => {
  const { workspace } = await scene({ a: "1", b: "2", c: "3" });
  expect(await listFiles(workspace, { most: 2 })).toHaveLength(2);
  expect(await listFiles(workspace, { most: 3 })).toHaveLength(3);
});

test("what lists, reads or refuses files leaves none of them open", async () => {
  const { workspace, directory } = await scene({ "in.txt": "in", "large.bin": "" });
  await truncate(join(directory, "large.bin"), 64 * 1024 * 1024 + 1);
  await listFiles(workspace);
  await readWorkspaceFile(workspace, "in.txt");
  const tooLarge = refusal("invalid_input", /67108865 bytes/);
  await expect(readWorkspaceFile(workspace, "large.bin")).rejects.toMatchObject(tooLarge);
  expect(await openIn(workspace.root)).toEqual([]);
});

test("a file of exactly 64 MiB can be opened", async () => {
  const { workspace, directory } = await scene({ "large.bin": "" });
  await truncate(join(directory, "large.bin"), 64 * 1024 * 1024);
  const file = await openWorkspaceFile(workspace, "large.bin");
  expect(file.size).toBe(67_108_864);
  await file.handle.close();
});
