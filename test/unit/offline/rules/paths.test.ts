import { expect, it } from "vitest";
import { absolutePathIn, filesNamedIn } from "../../../../src/offline/rules/paths.ts";

it.each([
  ["Review src/a.ts and ./b/c.test.ts, please.", ["src/a.ts", "b/c.test.ts"]],
  ["See `/srv/repo/package.json`.", ["/srv/repo/package.json"]],
  ["Use Node.js 20.11.1, e.g. from https://nodejs.org/dist/x.html", []],
  ["Nothing here.", []],
])("finds the files in “%s”", (text, files) => {
  expect(filesNamedIn(text)).toEqual(files);
});

it.each([
  ["What is in /srv/repo?", "/srv/repo"],
  ["Look at /srv/repo/package.json.", "/srv/repo/package.json"],
  ["either/or is no path", undefined],
])("finds the absolute path in “%s”", (text, path) => {
  expect(absolutePathIn(text)).toBe(path);
});
