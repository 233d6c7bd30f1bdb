/** Guarantee: what a disk or an opened directory holds is none of the workspace's quota. */
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { bookWrite, freeBytes, holdingsOf, leastFree } from "../../../../../src/worker/tools/files/quota.ts";
import { openScene } from "../scene.ts";

const GB = 1024 ** 3;

it("files and directories of an opened directory are not booked, also while the workspace is full", async () => {
  const { workspace, writable, call } = await openScene();
  await bookWrite(workspace, { bytes: GB, files: 50_000 });
  const file_path = join(writable, "new/below/file.txt");
  expect(await call("write_file", { file_path, content: "text" })).toMatchObject({ isError: false });
  expect(await readFile(file_path, "utf8")).toBe("text");
  expect(await holdingsOf(workspace)).toEqual({ bytes: GB, files: 50_000 });
});

it("a command leaves 4 GB of the disk free, of a disk that is nearly full half of what is free", () => {
  expect(leastFree(100 * GB)).toBe(4 * GB);
  expect(leastFree(8 * GB)).toBe(4 * GB);
  expect(leastFree(GB)).toBe(GB / 2);
});

it("a disk of which the system says nothing is not taken for a full one", async () => {
  const { workspace, home } = await openScene();
  await rm(home, { recursive: true });
  expect(await freeBytes(workspace)).toBe(Number.POSITIVE_INFINITY);
});
