import { linkSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openScene } from "../scene.ts";

it("a file that may not be opened is no match, and keeps the others from none", async () => {
  const scene = await openScene();
  for (const path of ["a.txt", ".env", "linked.txt", "z.txt"]) await scene.put(path, "needle\n");
  linkSync(join(scene.home, "linked.txt"), join(scene.base, "second-name"));
  const { content } = await scene.call("grep", { pattern: "needle" });
  expect(content).toBe("a.txt:1:needle\nz.txt:1:needle");
});

it("a glob that begins with !( is a list of names to leave out, in every directory", async () => {
  const scene = await openScene();
  for (const path of ["a.txt", "src/a.txt", "src/b.txt", "src/b.md"]) await scene.put(path, "needle\n");
  const { content } = await scene.call("grep", { pattern: "needle", glob: "!(a).txt" });
  expect(content).toBe("src/b.txt:1:needle");
});
