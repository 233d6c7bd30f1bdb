import { expect, it } from "vitest";
import { readFileTool } from "../../../../../src/worker/tools/builtin/read-file.ts";
import { openScene } from "../scene.ts";

it.each([
  ["with its last line", [1, 256]],
  ["with the file", [1, -1]],
] as const)("a range that fills 256 KB and ends there %s is not called cut", async (_, view_range) => {
  const scene = await openScene();
  const lines = `${"x".repeat(1_023)}\n`.repeat(256);
  await scene.put("full.txt", view_range[1] === -1 ? lines : `${lines}y\n`);
  const call = { file_path: "full.txt", view_range: [...view_range] };
  expect(await readFileTool().run(call, scene.context())).toBe(lines);
});
