import { expect, it } from "vitest";
import { readFileTool } from "../../../../../src/worker/tools/builtin/read-file.ts";
import { openScene } from "../scene.ts";

it("a file of exactly 256 KB is read whole, one byte more needs a range", async () => {
  const scene = await openScene();
  await scene.put("a.txt", "x".repeat(256 * 1024));
  await scene.put("b.txt", "x".repeat(256 * 1024 + 1));
  const read = (file_path: string) => readFileTool().run({ file_path }, scene.context());
  expect(String(await read("a.txt"))).toHaveLength(256 * 1024);
  await expect(read("b.txt")).rejects.toThrow("read a part with view_range");
});
