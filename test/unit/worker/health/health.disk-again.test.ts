import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { diskProbe } from "../../../../src/worker/health/health.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";

test("a disk is looked at again each time, so one that fills up is a reason", async () => {
  const folder = mkdtempSync(join(tmpdir(), "disk-"));
  closeAtEnd(() => rmSync(folder, { recursive: true, force: true }));
  const root = join(folder, "root");
  symlinkSync(folder, root);
  const probe = diskProbe(root);
  expect(await probe()).toBeUndefined();
  rmSync(root);
  // The file system of processes has no free block.
  symlinkSync("/proc", root);
  expect(await probe()).toBe(`the disk of the workspaces (${root}) is full`);
});
