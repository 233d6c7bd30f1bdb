import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  commandText,
  readReport,
  shellProgram,
  shellQuoted,
} from "../../../../../src/worker/tools/sandbox/shell.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";

function run(text: string) {
  const program = shellProgram({ before: "", from: 0, report: ">&2", fallback: "/" }).replace(
    "exec 2>&1\n",
    "",
  );
  const { stdout, stderr, status } = spawnSync("/bin/bash", ["-c", program], {
    input: text,
    encoding: "utf8",
  });
  return { stdout, status, report: readReport(stderr) };
}

describe("the program around a command", () => {
  it("runs it where it is told to, and says where it ended", () => {
    const directory = mkdtempSync(join(tmpdir(), "shell-"));
    closeAtEnd(() => rmSync(directory, { recursive: true }));
    const text = commandText(directory, "pwd; mkdir a; cd a; exit 3");
    expect(run(text)).toEqual({
      stdout: `${directory}\n`,
      status: 3,
      report: { ready: true, end: `${directory}/a` },
    });
    expect(run(commandText("/none", "pwd")).stdout).toBe("/\n");
  });

  it("runs no part of the directory's name, whatever lines it has", () => {
    const above = mkdtempSync(join(tmpdir(), "shell-"));
    closeAtEnd(() => rmSync(above, { recursive: true }));
    const directory = join(above, "a\ntouch ran\necho 'b");
    mkdirSync(directory);
    const { stdout, report } = run(commandText(directory, "ls"));
    expect(stdout).toBe("");
    expect(report.end).toBe(directory);
  });

  it("runs a command to the letter: quotes, empty lines at the end, comments, here-documents", () => {
    expect(run(commandText("/", "printf '%s' \"it's\" # why\n\n\n")).stdout).toBe("it's");
    expect(run(commandText("/", "cat <<'E'\n$x\nE")).stdout).toBe("$x\n");
    expect(
      execFileSync("/bin/sh", ["-c", `printf %s ${shellQuoted("it's $HOME")}`], { encoding: "utf8" }),
    ).toBe("it's $HOME");
  });

  it("runs no part of a command whose rest did not come", () => {
    const text = commandText("/", "echo ran");
    for (let length = 0; length < text.length; length++) {
      expect(run(text.slice(0, length))).toMatchObject({ stdout: "", status: 125 });
    }
    expect(run(text).stdout).toBe("ran\n");
  });
});
