import { expect, it } from "vitest";
import { readFileTool } from "../../../../../src/worker/tools/builtin/read-file.ts";
import { openScene } from "../scene.ts";

it("a range of more than 256 KB is cut, and says so", async () => {
  const scene = await openScene();
  await scene.put("long.txt", `${"x".repeat(1_023)}\n`.repeat(1_000));
  const read = await readFileTool().run({ file_path: "long.txt", view_range: [1, -1] }, scene.context());
  expect(read).toMatch(/\n\[cut here: more than 262144 bytes; ask for fewer lines\]$/);
  expect(String(read).length).toBeLessThan(600_000);
});

it("a range is not read on once the call is cancelled", async () => {
  const scene = await openScene();
  await scene.put("a.txt", "one\ntwo\n");
  const reading = readFileTool().run(
    { file_path: "a.txt", view_range: [1, 2] },
    scene.context(AbortSignal.abort()),
  );
  await expect(reading).rejects.toThrow("Cancelled while the file was read.");
});
