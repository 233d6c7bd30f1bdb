/** Guarantee: no call of a file tool leaves a file or directory open. */
import { readdirSync, readlinkSync } from "node:fs";
import { expect, it } from "vitest";
import { openScene } from "../scene.ts";

/** Returns the paths below `base` that this process has open. */
function openBelow(base: string): string[] {
  const paths = readdirSync("/proc/self/fd").map((descriptor) => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`);
    } catch {
      return "";
    }
  });
  return paths.filter((path) => path.startsWith(base));
}

it("read_file and edit_file leave nothing open, whether they succeed or fail", async () => {
  const { base, put, call } = await openScene();
  await put("deep/a.txt", "one\ntwo\n");
  const before = openBelow(base);
  const path = { file_path: "deep/a.txt" };
  expect(await call("read_file", path)).toMatchObject({ isError: false });
  expect(await call("read_file", { ...path, view_range: [9, 9] })).toMatchObject({ isError: true });
  expect(await call("read_file", { file_path: "deep/none.txt" })).toMatchObject({ isError: true });
  expect(openBelow(base)).toEqual(before);
  const edit = { ...path, old_string: "one", new_string: "1" };
  expect(await call("edit_file", edit)).toMatchObject({ isError: false });
  expect(await call("edit_file", edit)).toMatchObject({ isError: true });
  expect(openBelow(base)).toEqual(before);
});

it("a range whose end lies before its begin is named as such", async () => {
  const { put, call } = await openScene();
  await put("a.txt", "one\ntwo\nthree\n");
  const { content, isError } = await call("read_file", { file_path: "a.txt", view_range: [3, 2] });
  expect([isError, content]).toEqual([true, expect.stringContaining("view_range must be")]);
});
