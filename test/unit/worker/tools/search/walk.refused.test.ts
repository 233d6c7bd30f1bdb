/** Guarantee: a directory that may not be opened is left out of a search, and ends none. */
import { expect, it } from "vitest";
import { openScene } from "../scene.ts";

it("a search goes on beside a directory that may hold secrets", async () => {
  const { call, put } = await openScene();
  await put(".aws/config", "TODO");
  await put("src/a.ts", "TODO");
  expect((await call("grep", { pattern: "TODO" })).content).toBe("src/a.ts:1:TODO");
  expect((await call("glob", { pattern: "**/*" })).content).toBe("src/a.ts");
});
