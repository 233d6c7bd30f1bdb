/** Guarantee: what a model writes runs with nobody's rights but those of the user who starts it. */
import { chmodSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openScene } from "../scene.ts";

it("a program that is replaced keeps its mode, and not that it runs as its owner", async () => {
  const { writable, call } = await openScene();
  const file_path = join(writable, "program");
  writeFileSync(file_path, "old");
  chmodSync(file_path, 0o6755);
  expect(await call("write_file", { file_path, content: "new" })).toMatchObject({ isError: false });
  expect(statSync(file_path).mode & 0o7777).toBe(0o755);
  chmodSync(file_path, 0o6755);
  const edit = { file_path, old_string: "new", new_string: "newer" };
  expect(await call("edit_file", edit)).toMatchObject({ isError: false });
  expect(statSync(file_path).mode & 0o7777).toBe(0o755);
});
