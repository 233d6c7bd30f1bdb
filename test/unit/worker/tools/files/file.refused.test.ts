/** Guarantee: a file that is refused or cancelled stays closed, and nothing is made for it. */
import { existsSync, linkSync, readdirSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openNamed, writeWhole } from "../../../../../src/worker/tools/files/file.ts";
import { openDirectory } from "../../../../../src/worker/tools/files/open.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { openScene } from "../scene.ts";

const scene = await openScene();

/** Paths below the scene that this process has open. */
function opened(): string[] {
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`);
      return path.startsWith(scene.base) ? [path] : [];
    } catch {
      return [];
    }
  });
}

it.runIf(process.platform === "linux")("a file with a second name is closed again", async () => {
  await scene.put("first", "text");
  linkSync(join(scene.home, "first"), join(scene.home, "second"));
  const call = () => scene.call("read_file", { file_path: "second" });
  expect(await call()).toMatchObject({ isError: true, content: expect.stringContaining("second hard link") });
  expect(opened()).toEqual([]);
});

it("a file on another file system than its directory's is refused", async () => {
  const path = join(scene.writable, "file");
  writeFileSync(path, "text");
  const directory = await openDirectory(scene.workspace, scene.writable);
  closeAtEnd(() => directory.handle.close());
  const elsewhere = { ...directory, device: directory.device + 1 };
  await expect(openNamed(elsewhere, "file", path)).rejects.toThrow(/on another file system/);
});

it("a write that was cancelled before its turn makes no directory", async () => {
  const writing = writeWhole(scene.workspace, "new/file", Buffer.from("text"), AbortSignal.abort());
  await expect(writing).rejects.toThrow(/^Cancelled/);
  expect(existsSync(join(scene.home, "new"))).toBe(false);
});
