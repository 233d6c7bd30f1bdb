/** Guarantee: a directory that cannot be looked at once it is open is not left open. */
import { readdirSync, readlinkSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { expect, it, vi } from "vitest";
import { openLocation } from "../../../../../src/worker/tools/files/open.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { openScene } from "../scene.ts";

/** Returns whether this process has `path` open. */
function isOpen(path: string): boolean {
  return readdirSync("/proc/self/fd").some((descriptor) => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`) === path;
    } catch {
      return false;
    }
  });
}

it("a workspace whose disk fails when it is looked at is closed again", async () => {
  const { workspace, home } = await openScene();
  const handle = await open(home);
  expect(isOpen(home)).toBe(true);
  const methods: FileHandle = Object.getPrototypeOf(handle);
  await handle.close();
  const failure = Object.assign(new Error("EIO: i/o error, fstat"), { code: "EIO" });
  const stat = vi.spyOn(methods, "stat").mockRejectedValueOnce(failure);
  closeAtEnd(() => void stat.mockRestore());
  await expect(openLocation(workspace, "a.txt")).rejects.toThrow('"a.txt" cannot be used (EIO).');
  expect(isOpen(home)).toBe(false);
});
