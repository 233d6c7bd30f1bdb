import { readdirSync, readlinkSync } from "node:fs";
import { expect, it } from "vitest";
import { openScene } from "../scene.ts";

it("a malformed glob is refused also where there is nothing to search", async () => {
  const { call } = await openScene();
  const { content, isError } = await call("grep", { pattern: "a", glob: "{a,b" });
  expect([isError, content]).toEqual([true, expect.stringContaining("malformed")]);
});

it("grep leaves nothing open, whether it is given a file, a directory or a bad pattern", async () => {
  const { base, put, call } = await openScene();
  await put("deep/a.txt", "needle\n");
  await put("deep/b.bin", "needle\0\n");
  await put("deep/.gitignore", "*.log\n");
  for (const more of [{ path: "deep/a.txt" }, { path: "deep/b.bin" }, { path: "deep" }, { pattern: "(" }])
    await call("grep", { pattern: "needle", ...more });
  const open = readdirSync("/proc/self/fd").map((descriptor) => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`);
    } catch {
      return "";
    }
  });
  expect(open.filter((path) => path.startsWith(base))).toEqual([]);
});
