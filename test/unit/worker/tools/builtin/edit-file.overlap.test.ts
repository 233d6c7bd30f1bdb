import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openScene } from "../scene.ts";

it("a passage is found where it begins within an attempt that did not fit", async () => {
  const { home, put, call } = await openScene();
  for (const [before, old, after] of [
    ["aaab", "aab", "aX"],
    ["abacabacabab", "abacabab", "abacX"],
    ["one\n\n\nend\n", "\n\nend", "one\nX\n"],
  ]) {
    await put("a.txt", before ?? "");
    const edit = { file_path: "a.txt", old_string: old, new_string: "X" };
    expect(await call("edit_file", edit)).toMatchObject({ isError: false });
    expect(await readFile(join(home, "a.txt"), "utf8")).toBe(after);
  }
});
