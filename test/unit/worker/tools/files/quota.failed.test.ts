/** Guarantee: what could not be written takes no room of the workspace. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { holdingsOf } from "../../../../../src/worker/tools/files/quota.ts";
import { openScene } from "../scene.ts";

it("a file that cannot be written in place of a directory is not booked", async () => {
  const { workspace, home, call } = await openScene();
  await mkdir(join(home, "here"));
  const before = await holdingsOf(workspace);
  const written = await call("write_file", { file_path: "here", content: "x".repeat(100_000) });
  expect(written).toMatchObject({ isError: true });
  expect(await holdingsOf(workspace)).toEqual(before);
});
