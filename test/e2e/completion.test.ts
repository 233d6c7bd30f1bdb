import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { runHere } from "../helpers/program.ts";

const MAIN = "dist/cli/main.js";
const run = promisify(execFile);
let script = "";
beforeAll(async () => {
  script = (await run(process.execPath, [MAIN, "completion", "bash"])).stdout;
});

/** What bash offers behind these words; the last one is being typed. */
async function offered(...words: string[]): Promise<string[]> {
  const line = ["subagent-queue", ...words];
  const quoted = line.map((word) => `'${word}'`).join(" ");
  const asked = `${script}
COMP_WORDS=(${quoted}); COMP_CWORD=${words.length}; _subagent_queue; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout } = await run("bash", ["--norc", "-c", asked]);
  return stdout.split("\n").filter(Boolean);
}

test("bash completes verbs, their flags, and words that an argument may be", async () => {
  expect(await offered("wo")).toEqual(["worker"]);
  expect(await offered("")).toEqual(expect.arrayContaining(["start", "run", "doctor", "completion", "help"]));
  expect(await offered("run", "--max-t")).toEqual(["--max-turns", "--max-tokens", "--max-total-tokens"]);
  for (const verb of ["run", "spawn"]) expect(await offered(verb, "--sc")).toEqual(["--schema"]);
  expect(await offered("completion", "")).toEqual(["bash", "zsh", "fish"]);
  expect(await offered("help", "doc")).toEqual(["doctor"]);
  expect(await offered("run", "R")).toEqual([]);
});

test("every verb of the help stands in every script, and another shell is refused", async () => {
  const say = (...args: string[]) => runHere(args, { cwd: process.cwd(), env: {} });
  const help = (await say("--help")).stdout.join("\n");
  const [, list = ""] = /Commands:\n([\s\S]*?)\n\n/.exec(help) ?? [];
  const verbs = [...list.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name = ""]) => name);
  expect(verbs.length).toBeGreaterThan(20);
  for (const shell of ["zsh", "fish"]) {
    const stdout = (await say("completion", shell)).stdout.join("\n");
    for (const name of verbs) expect(stdout).toMatch(new RegExp(`(?:'| -a )${name}[: ]`));
    expect(stdout).toContain("health-port");
  }
  expect((await say("completion", "tcsh")).code).toBe(2);
});
