import { linkSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openScene } from "../scene.ts";

it("where a .gitignore may not be opened, the rules of the directories above hold", async () => {
  const { base, home, put, call } = await openScene();
  await put(".gitignore", "*.log\n");
  await put("below/.gitignore", "*.txt\n");
  linkSync(join(home, "below/.gitignore"), join(base, "second-name"));
  for (const name of ["a.log", "a.txt"]) await put(`below/${name}`, "");
  expect((await call("glob", { pattern: "**/a.*" })).content).toBe("below/a.txt");
});
