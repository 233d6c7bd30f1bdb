import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { commandFor, pasteable } from "../../../src/cli/shell-command.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";

/** A project with the package below `node_modules`, a folder with a global command, and a clone. */
function machine() {
  const root = mkdtempSync(join(tmpdir(), "invocation-"));
  closeAtEnd(() => rmSync(root, { recursive: true, force: true }));
  const folder = (...names: string[]) => {
    mkdirSync(join(root, ...names), { recursive: true });
    return join(root, ...names);
  };
  const script = join(folder("project", "node_modules", "subagent-queue", "dist"), "main.js");
  writeFileSync(script, "");
  chmodSync(script, 0o755);
  writeFileSync(join(root, "project", "package.json"), "{}");
  const linked = join(folder("project", "node_modules", ".bin"), "subagent-queue");
  symlinkSync(script, linked);
  const global = folder("bin");
  symlinkSync(script, join(global, "subagent-queue"));
  return { root, script, linked, global, inner: folder("project", "src", "deep"), elsewhere: folder("a b") };
}

test("inside of a project that has the package it is npx, wherever in the project", () => {
  const { linked, script, inner, global } = machine();
  for (const called of [linked, script])
    expect(commandFor({ script: called, cwd: inner, searchPath: global })).toBe("npx subagent-queue");
});

test("where the PATH has it, its name is enough; the folders that npm puts there for a while do not count", () => {
  const { script, linked, elsewhere, global } = machine();
  const inNpm = join(linked, "..");
  expect(commandFor({ script, cwd: elsewhere, searchPath: `${inNpm}:${global}` })).toBe("subagent-queue");
  expect(commandFor({ script, cwd: elsewhere, searchPath: inNpm })).toBe(`node ${script}`);
});

test("called in a clone by the link that npx makes for a while, it is the script itself", () => {
  const { root } = machine();
  const clone = join(root, "clone");
  mkdirSync(join(clone, "dist"), { recursive: true });
  writeFileSync(join(clone, "package.json"), "{}");
  writeFileSync(join(clone, "dist", "main.js"), "");
  const linked = join(root, "for-a-while");
  symlinkSync(join(clone, "dist", "main.js"), linked);
  expect(commandFor({ script: linked, cwd: clone, searchPath: undefined })).toBe("node dist/main.js");
});

test("a program of the same name is not taken for this one", () => {
  const { root, inner, global } = machine();
  const other = join(root, "project", "src", "deep", "it's.js");
  writeFileSync(other, "");
  expect(commandFor({ script: other, cwd: inner, searchPath: global })).toBe("node 'it'\\''s.js'");
  expect(commandFor({ script: join(root, "gone.js"), cwd: inner, searchPath: undefined })).toBe(
    `node ${join(root, "gone.js")}`,
  );
});

test("what is said names the command that works here; paths, usage and other words stay", () => {
  const here = (text: string) => pasteable(text, "node a/$&/main.js");
  expect(here('id=$(subagent-queue spawn x); "subagent-queue send"')).toBe(
    'id=$(node a/$&/main.js spawn x); "node a/$&/main.js send"',
  );
  for (const text of ["Usage: subagent-queue start [options]", "subagent-queue: no", "/opt/subagent-queue x"])
    expect(here(text)).toBe(text);
});

test("a line that already says how the program is called stays as it is, also where npx calls it", () => {
  const line = "subagent-queue run x, subagent-queue list";
  for (const command of ["npx subagent-queue", "subagent-queue", "node dist/cli/main.js"]) {
    const once = pasteable(line, command);
    expect(once).toBe(`${command} run x, ${command} list`);
    expect(pasteable(once, command)).toBe(once);
  }
});
