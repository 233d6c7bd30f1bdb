import { expect, it } from "vitest";
import { foundHits, foundPaths, globIn, shorten, within } from "../../../../src/offline/rules/lookup.ts";

const step = (name: string, output: string, failed = false) => ({ name, input: {}, output, failed });

it("reads paths, and leaves out what is no path", () => {
  const output = "b.ts\na.ts\nb.ts\n(app)/[id].tsx\n\n[12 of 500 results shown]\n... and more";
  expect(foundPaths([step("glob", output), step("glob", "x.ts", true), step("grep", "y:1:z")])).toEqual([
    "(app)/[id].tsx",
    "a.ts",
    "b.ts",
  ]);
  expect(foundPaths([step("glob", "no matches")])).toEqual([]);
});

it("reads hits, and leaves out what is none", () => {
  expect(foundHits([step("grep", "a.ts:3:x: y\nno matches")])).toEqual([
    { path: "a.ts", line: 3, text: "x: y" },
  ]);
});

it("globs in the directory of a file", () => {
  expect(globIn(["/srv/repo/package.json", "/srv/repo", "."], "*").map((call) => call.input.path)).toEqual([
    "/srv/repo",
    "/srv/repo",
    ".",
  ]);
});

it("joins paths and shortens texts between characters", () => {
  expect([within(".", "a"), within("/srv/", "a")]).toEqual(["a", "/srv/a"]);
  expect(shorten("😀😀😀", 2)).toBe("😀…");
  expect(shorten("😀😀", 2)).toBe("😀😀");
});
