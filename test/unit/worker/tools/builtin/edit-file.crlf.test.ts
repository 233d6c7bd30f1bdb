import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openScene } from "../scene.ts";

it("a new text with CRLF goes as it is into a file with CRLF", async () => {
  const { home, put, call } = await openScene();
  await put("a.txt", "one\r\ntwo\r\n");
  const edit = { file_path: "a.txt", old_string: "one", new_string: "1\r\n1b" };
  expect(await call("edit_file", edit)).toMatchObject({ isError: false });
  expect(await readFile(join(home, "a.txt"), "utf8")).toBe("1\r\n1b\r\ntwo\r\n");
});
