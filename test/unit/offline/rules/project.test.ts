import { expect, it } from "vitest";
import { frameworksIn, luaPurpose, purposeOf } from "../../../../src/offline/rules/project.ts";

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
