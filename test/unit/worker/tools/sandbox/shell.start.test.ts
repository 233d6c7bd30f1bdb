/** Guarantee: a command finds no variable of the program around it, and reports a directory that exists under this name. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { commandText, readReport, shellProgram } from "../../../../../src/worker/tools/sandbox/shell.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";

const program = shellProgram({ before: "", from: 0, report: ">&2" }).replace("exec 2>&1\n", "");

function run(cwd: string, script: string) {
  const input = commandText(cwd, script);
  const { stdout, stderr } = spawnSync("/bin/bash", ["-c", program], { input, encoding: "utf8" });
  return { stdout, ...readReport(stderr) };
}

function directory(): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), "shell-")));
  closeAtEnd(() => rmSync(path, { recursive: true }));
  return path;
}

it("a command sees no variable in which its directory came", () => {
  expect(run("/", 'echo "$' + '{cwd-unset}"').stdout).toBe("unset\n");
});

it("a directory that was entered by a link is reported without it", () => {
  const base = directory();
  expect(run(base, "mkdir real; ln -s real link; cd link").end).toBe(join(base, "real"));
});

it("a directory whose name ends with spaces is reported with them", () => {
  const named = join(directory(), "a  ");
  mkdirSync(named);
  expect(run(named, "true").end).toBe(named);
  expect(run(named, "pwd").stdout).toBe(`${named}\n`);
});
