import { utimes } from "node:fs/promises";
import { expect, it } from "vitest";
import { openScene } from "../scene.ts";

it("files of the same time come in the order of their paths", async () => {
  const scene = await openScene();
  for (const path of ["b.txt", "a/z.txt", "c/a.txt"]) {
    await utimes(await scene.put(path, ""), 1_000, 1_000);
  }
  const { content } = await scene.call("glob", { pattern: "**/*.txt" });
  expect(content).toBe("a/z.txt\nb.txt\nc/a.txt");
});

it("two stars reach any depth wherever they stand in a pattern", async () => {
  const scene = await openScene();
  await scene.put("src/one/two/three/deep.txt", "");
  expect((await scene.call("glob", { pattern: "*/**/deep.txt" })).content).toBe("src/one/two/three/deep.txt");
});

it("a malformed pattern is refused also where there is no file", async () => {
  const scene = await openScene();
  expect((await scene.call("glob", { pattern: "{{{{a,b}" })).content).toMatch(/malformed/);
});
