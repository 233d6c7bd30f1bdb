/** Guarantee: a directory that another process makes at the same moment is used, not refused. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openLocation } from "../../../../../src/worker/tools/files/open.ts";
import { openScene } from "../scene.ts";

it("a directory that is made between the look and the making is entered", async () => {
  const { workspace } = await openScene();
  const create = async ({ path }: { path: string }) => mkdir(join(path, "new")).then(() => undefined);
  const { directory, name, stat } = await openLocation(workspace, "new/file", { create });
  await directory.handle.close();
  expect([directory.segments, name, stat]).toEqual([["new"], "file", undefined]);
});
