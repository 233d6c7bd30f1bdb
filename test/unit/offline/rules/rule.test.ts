import { expect, it } from "vitest";
import { failures, filesNamedIn, foundLines, lookup, shorten } from "../../../../src/offline/rules/rule.ts";

const step = (output: string, failed = false) => ({ name: "glob", input: {}, output, failed });

it("reads the lines that were found, and leaves out what a tool says about them", () => {
  expect(foundLines([step("b.ts\n(app)/[id].tsx\n\n[12 of 500 results shown]"), step("x.ts", true)])).toEqual(
    ["b.ts", "(app)/[id].tsx"],
  );
  expect(foundLines([step("no matches")])).toEqual([]);
});

it.each([
  ["Review src/a.ts and ./b/c.test.ts, please.", ["src/a.ts", "b/c.test.ts"]],
  ["See `/srv/repo/package.json`.", ["/srv/repo/package.json"]],
  ["Look at https://nodejs.org/dist/x.html", []],
  ["Nothing here.", []],
])("finds the files in “%s”", (text, files) => {
  expect(filesNamedIn(text)).toEqual(files);
});

it("tells what failed, and what was searched in part", () => {
  const grep = { ...step("a.ts:1:TODO\n[stopped after 10 s]"), name: "grep" };
  const read = { ...step("[not a notice]"), name: "read_file" };
  expect(failures([grep, read, step("no such path\nat all", true)])).toBe(
    " (grep: stopped after 10 s; glob: no such path)",
  );
  expect(failures([step("a.ts"), read])).toBe("");
});

it("makes six calls a turn, none twice, and only those whose tools are offered", () => {
  const calls = Array.from({ length: 8 }, (_, n) => ({ name: "grep", input: { pattern: `${n}` } }));
  const task = { text: "", steps: [], offered: new Set(["grep"]), directories: ["."] };
  expect(lookup(task, calls, () => "done")).toEqual(calls.slice(0, 6));
  const steps = calls.slice(0, 6).map((call) => ({ ...call, output: "", failed: false }));
  expect(lookup({ ...task, steps }, calls, () => "done")).toEqual(calls.slice(6));
  expect(lookup({ ...task, offered: new Set() }, calls, () => "done")).toMatch(/`grep` may not be used/);
});

it("shortens a text between characters", () => {
  expect([shorten("😀😀😀", 2), shorten("😀😀", 2)]).toEqual(["😀…", "😀😀"]);
});
