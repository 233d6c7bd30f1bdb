/** Guarantee: the command line says in one sentence that the directory in which it was called was deleted. */
import { spawnSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const MAIN = resolve(import.meta.dirname, "../../dist/cli/main.js");

test("a deleted current directory is named, without a stack trace", () => {
  const lost = mkdtempSync(join(tmpdir(), "lost-"));
  const script = 'cd "$1" && rmdir "$1" && "$2" "$3" --version';
  const { status, stdout, stderr } = spawnSync("sh", ["-c", script, "sh", lost, process.execPath, MAIN], {
    encoding: "utf8",
  });
  expect({ status, stdout }).toEqual({ status: 3, stdout: "" });
  expect(stderr).toMatch(
    /^subagent-queue: There is no current directory \(ENOENT.*\): go to another one\.\n$/,
  );
});
