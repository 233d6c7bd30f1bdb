import { execFileSync } from "node:child_process";
import { mkdir, readdir, rename, rm, symlink, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import {
  bookWrite,
  countHoldings,
  exceeds,
  forgetHoldings,
  overfills,
} from "../../../../../src/worker/tools/files/quota.ts";
import { openScene } from "../scene.ts";

const quota = { bytes: 1024 * 1024, files: 10 };

it("counts what files take on the disk, directories as files, and stops at twice the files of the quota", async () => {
  const { workspace, put, home } = await openScene();
  expect(await countHoldings(workspace, quota)).toEqual({ bytes: 0, files: 0 });
  await put("a/b/c", "x".repeat(5_000));
  expect(await countHoldings(workspace, quota)).toEqual({ bytes: 8_192, files: 3 });
  await writeFile(join(home, "sparse"), "");
  await truncate(join(home, "sparse"), 10 * 1024 ** 3);
  expect((await countHoldings(workspace, quota)).bytes).toBeLessThan(16_384);
  for (let n = 0; n < 16; n++) await mkdir(join(home, `${n}`));
  expect((await countHoldings(workspace, quota)).files).toBe(20);
  await mkdir(join(home, "16"));
  expect((await countHoldings(workspace, quota)).files).toBe(Number.POSITIVE_INFINITY);
});

it("sees what is added to a full workspace, in whatever order it is counted", async () => {
  const { workspace, home, put } = await openScene();
  for (const path of ["a", "b", "c"]) await put(path, "x".repeat(quota.bytes));
  await mkdir(join(home, "below"));
  const before = await countHoldings(workspace, quota);
  await put("below/d", "x".repeat(quota.bytes));
  const now = await countHoldings(workspace, quota);
  expect([now.files - before.files, now.bytes - before.bytes]).toEqual([1, quota.bytes]);
});

it("takes a full workspace for overfilled when it holds more than before or cannot be counted", () => {
  const full = { bytes: 2 * 1024 ** 3, files: 10 };
  const uncounted = { bytes: 0, files: Number.POSITIVE_INFINITY };
  expect(overfills({ bytes: 0, files: 0 }, { bytes: 1024 ** 3, files: 50_000 })).toBe(false);
  expect(overfills(full, full)).toBe(false);
  expect(overfills(full, { ...full, bytes: full.bytes - 1 })).toBe(false);
  expect(overfills(full, { ...full, bytes: full.bytes + 1 })).toBe(true);
  expect(overfills(full, { ...full, files: 11 })).toBe(true);
  expect(overfills(uncounted, uncounted)).toBe(true);
});

it("takes a workspace that cannot be opened any more for full, for its watcher must not fail", async () => {
  const { workspace, home } = await openScene();
  await rename(home, `${home}.moved`);
  await symlink(home, home);
  expect(exceeds(await countHoldings(workspace, quota), quota)).toBe(true);
  await rm(home);
  expect(await countHoldings(workspace, quota)).toEqual({ bytes: 0, files: 0 });
});

it("refuses a write beyond the bytes or the files, and takes what makes room", async () => {
  const { workspace } = await openScene();
  await bookWrite(workspace, { bytes: 1024 * 1024, files: 1 }, quota);
  await expect(bookWrite(workspace, { bytes: 1, files: 0 }, quota)).rejects.toThrow(
    /workspace is full \(1 MB, 10 files\)/,
  );
  await bookWrite(workspace, { bytes: -1024, files: 0 }, quota);
  await bookWrite(workspace, { bytes: 1024, files: 9 }, quota);
  await expect(bookWrite(workspace, { bytes: 0, files: 1 }, quota)).rejects.toThrow(/is full/);
  forgetHoldings(workspace);
  await bookWrite(workspace, { bytes: 1, files: 1 }, quota);
});

it("owes nothing for what is freed beyond its count: the next write has the whole quota, and no more", async () => {
  const { workspace } = await openScene();
  await bookWrite(workspace, { bytes: 1024, files: 1 }, quota);
  await bookWrite(workspace, { bytes: -4096, files: 0 }, quota);
  await expect(bookWrite(workspace, { bytes: quota.bytes + 1, files: 0 }, quota)).rejects.toThrow(/is full/);
  await bookWrite(workspace, { bytes: quota.bytes, files: 0 }, quota);
});

it("takes a file that is replaced for no more than it was counted for, whatever size it says it has", async () => {
  const { workspace, home, call, put } = await openScene();
  await put("small", "x");
  await writeFile(join(home, "sparse"), "");
  await truncate(join(home, "sparse"), 10 * 1024 ** 3);
  const { bytes } = await countHoldings(workspace, quota);
  await bookWrite(workspace, { bytes: quota.bytes - bytes, files: 0 }, quota);
  for (const file_path of ["sparse", "sparse", "small", "small"])
    expect(await call("write_file", { file_path, content: "yyy" })).toMatchObject({ isError: false });
  await expect(bookWrite(workspace, { bytes: 1, files: 0 }, quota)).rejects.toThrow(/workspace is full/);
});

it("takes each directory that a path needs for a file, before it is made", async () => {
  const { workspace, home, call } = await openScene();
  await bookWrite(workspace, { bytes: 0, files: 49_998 });
  const outcome = await call("write_file", { file_path: "a/b/c/d", content: "x" });
  expect(outcome).toMatchObject({ isError: true, content: expect.stringMatching(/workspace is full/) });
  expect(await readdir(home, { recursive: true })).toEqual(["a", "a/b"]);
  await expect(bookWrite(workspace, { bytes: 0, files: 1 })).rejects.toThrow(/workspace is full/);
  for (let n = 0; n < 3; n++)
    expect(await call("write_file", { file_path: `full-${n}/x`, content: "x" })).toMatchObject({
      isError: true,
    });
  expect(await readdir(home)).toEqual(["a"]);
});

it("counts what hides behind a name that is no text or a mode, and takes what no path reaches for too much", async () => {
  const { workspace, home } = await openScene();
  const shell = (script: string) => execFileSync("/bin/bash", ["-c", script], { cwd: home });
  shell(
    "mkdir -p $'\\xff\\xfe/in' shut/in; head -c 5000 /dev/zero | tee $'\\xff\\xfe/in/a' > shut/in/b; chmod 0 shut",
  );
  expect(await countHoldings(workspace, quota)).toEqual({ bytes: 16_384, files: 6 });
  const name = "d".repeat(250);
  shell(`for i in $(seq 20); do mkdir ${name} && cd ${name} || exit 1; done`);
  const roomy = { bytes: 1024 ** 3, files: 50_000 };
  expect(exceeds(await countHoldings(workspace, roomy), roomy)).toBe(true);
  shell(`rm -rf ${name}`);
  expect(exceeds(await countHoldings(workspace, roomy), roomy)).toBe(false);
});
