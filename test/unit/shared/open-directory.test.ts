import { link, mkdir, mkdtemp, rename, rm, symlink, unlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import {
  createWalkBudget,
  nameOf,
  type OpenDirectory,
  openDirectoryAt,
  openFileIn,
  pathIn,
  walkTree,
} from "../../../src/shared/open-directory.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";

let directory: OpenDirectory;
beforeEach(async () => {
  const path = await mkdtemp(join(tmpdir(), "open-directory-"));
  closeAtEnd(() => rm(path, { recursive: true, force: true }));
  const handle = await openDirectoryAt(path);
  closeAtEnd(() => handle.close());
  directory = { handle, path };
});

const at = (...names: string[]) => join(directory.path, ...names);

/** What `name` is to the file that was opened by it, when `meanwhile` has happened. */
async function nameAfter(name: string, meanwhile: () => Promise<unknown>): Promise<unknown> {
  const handle = await openFileIn(directory, name);
  try {
    const opened = await handle.stat();
    await meanwhile();
    return await nameOf(directory, name, opened);
  } finally {
    await handle.close();
  }
}

describe("the name of an opened file", () => {
  beforeEach(() => writeFile(at("a"), ""));

  test("is its single one", async () => {
    expect(await nameAfter("a", async () => {})).toBe("single");
  });

  test("is one of several, also when the file got the other one after it was opened", async () => {
    expect(await nameAfter("a", () => link(at("a"), at("b")))).toBe("several");
  });

  test("is another file's when that was moved there", async () => {
    await writeFile(at("b"), "");
    expect(await nameAfter("a", () => rename(at("b"), at("a")))).toBe("other");
  });

  test("is none when it was removed, whatever the descriptor counts", async () => {
    await link(at("a"), at("b"));
    await expect(nameAfter("a", () => unlink(at("a")))).rejects.toMatchObject({ code: "ENOENT" });
  });
});

test("a link is followed neither to a directory nor to a file", async () => {
  await mkdir(at("real"));
  await writeFile(at("real", "file"), "");
  await symlink("real", at("branch"));
  await symlink("real/file", at("leaf"));
  await expect(openDirectoryAt(pathIn(directory, "branch"))).rejects.toMatchObject({ code: "ENOTDIR" });
  await expect(openFileIn(directory, "leaf")).rejects.toMatchObject({ code: "ELOOP" });
});

/** The files that a walk shows, with their directories, and whether it ended early. */
async function walk({ entries = 50_000, maxDepth }: { entries?: number; maxDepth?: number }) {
  const budget = { ...createWalkBudget(), entriesLeft: entries };
  const openBelow = async (above: OpenDirectory, name: string) => ({
    handle: await openDirectoryAt(pathIn(above, name)),
    path: join(above.path, name),
  });
  const choose = async (
    _: OpenDirectory,
    listing: { files: readonly string[]; directories: readonly string[] },
  ) => ({
    ...listing,
    rules: undefined,
  });
  const shown: string[] = [];
  const start = { handle: await openDirectoryAt(directory.path), path: "" };
  for await (const step of walkTree(start, { budget, maxDepth, openBelow, choose }, undefined))
    shown.push(...step.names.map((name) => join(step.directory.path, name)));
  return { shown, exhausted: budget.exhausted };
}

describe("a walk", () => {
  beforeEach(async () => {
    await mkdir(at("b", "deep"), { recursive: true });
    for (const name of ["z", "a", "b/deep/d", "b/c"]) await writeFile(at(name), "");
  });

  test("shows files by name, a directory's before those of its subdirectories", async () => {
    expect(await walk({})).toEqual({ shown: ["a", "z", "b/c", "b/deep/d"], exhausted: false });
  });

  test("ends at its depth and after its entries", async () => {
    expect((await walk({ maxDepth: 2 })).shown).toEqual(["a", "z", "b/c"]);
    expect(await walk({ entries: 5 })).toEqual({ shown: ["a", "z", "b/c"], exhausted: true });
    expect(await walk({ entries: 6 })).toEqual({ shown: ["a", "z", "b/c", "b/deep/d"], exhausted: false });
  });
});
