import { expect, it } from "vitest";
import {
  countMarkers,
  frameworksIn,
  listFiles,
  luaPurpose,
  purposeOf,
} from "../../../../src/offline/rules/project.ts";

it.each([
  ["package.json", '{"devDependencies":{"jest":"^30.0.0"}}', ["jest ^30.0.0"]],
  ["a/package.json", '{"devDependencies":{"ava":"6","vitest":"4"}}', ["vitest 4", "ava 6"]],
  ["package.json", '{"scripts":{"test":"node --test test/"}}', ["node:test"]],
  ["pyproject.toml", 'dev = ["pytest>=8.1"]', ["pytest >=8.1"]],
  ["requirements.txt", "flask\npytest==8.2.0\n", ["pytest ==8.2.0"]],
  ["go.mod", "module x\n", ["go test (built in)"]],
  ["package.json", '{"dependencies":{"express":"5"}}', []],
  ["pyproject.toml", "[project]", []],
])("finds what %s names in %s", (file, text, found) => {
  expect(frameworksIn(file, text)).toEqual(found);
});

it("takes the first sentence of a script's head comment for its purpose", () => {
  expect(purposeOf("-- claim: takes\n-- a run. More.\n-- KEYS x\nreturn 1")).toBe("claim: takes a run.");
  expect(purposeOf("return 1")).toBe("no comment at its head");
});

it.each([
  [["/srv/repo"], "1 Lua script in /srv/repo, 1 read:\n- lua/ack.lua: ack: removes."],
  [["/srv/repo", "/data"], "1 Lua script, 1 read:\n- /srv/repo/lua/ack.lua: ack: removes."],
])("names files relative to the only open directory (%j)", (directories, answer) => {
  const file = "/srv/repo/lua/ack.lua";
  const steps = [
    ...directories.map((path, i) => ({
      name: "glob",
      input: { pattern: "**/*.lua", path },
      output: i === 0 ? file : "no matches",
      failed: false,
    })),
    { name: "read_file", input: { file_path: file }, output: "-- ack: removes.", failed: false },
  ];
  expect(luaPurpose.next({ text: "lua scripts", steps, offered: new Set(), directories })).toBe(answer);
});

const searched = (name: string, input: object, output: string) => [
  { name, input: { ...input, path: "." }, output, failed: false },
];
const none = { offered: new Set<string>(), directories: ["."] };

it("ends a list that is empty with its head, and others after a hundred lines", () => {
  const files = Array.from({ length: 101 }, (_, i) => `a${i}.ts`);
  const glob = (pattern: string, output: string) => ({
    ...none,
    steps: searched("glob", { pattern }, output),
  });
  expect(luaPurpose.next({ text: "lua scripts", ...glob("**/*.lua", "no matches") })).toBe(
    "0 Lua scripts, 0 read.",
  );
  expect(listFiles.next({ text: "list .ts files", ...glob("**/*.ts", "no matches") })).toBe("0 files.");
  expect(listFiles.next({ text: "list .ts files", ...glob("**/*.ts", files.join("\n")) })).toBe(
    ["101 files:", ...files.slice(0, 100).map((file) => `- ${file}`)].join("\n"),
  );
});

it("counts the lines with a marker, and those of each file", () => {
  const pattern = "(//|/\\*|^\\s*\\*|#|--|<!--).*\\b(TODO)\\b";
  const task = { text: "how many TODO?", ...none };
  const found = "a.ts:1:// TODO a\na.ts:9:// TODO b\nb.ts:2:# TODO";
  expect(countMarkers.next({ ...task, steps: searched("grep", { pattern }, found) })).toBe(
    "There are 3 TODO comments in 2 files:\n- a.ts: 2\n- b.ts: 1",
  );
  expect(countMarkers.next({ ...task, steps: searched("grep", { pattern }, "no matches") })).toBe(
    "There are 0 TODO comments in 0 files.",
  );
});
