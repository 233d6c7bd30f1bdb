/** Guarantee: a file that replaces another counts as one file. */
import { expect, it } from "vitest";
import { holdingsOf } from "../../../../../src/worker/tools/files/quota.ts";
import { openScene } from "../scene.ts";

it("a file that is written again counts once", async () => {
  const { workspace, call } = await openScene();
  const { files } = await holdingsOf(workspace);
  for (const content of ["first", "second", "third"]) {
    await call("write_file", { file_path: "notes.txt", content });
  }
  expect(await holdingsOf(workspace)).toMatchObject({ files: files + 1 });
});
