import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { bundled } from "../helpers/bundle.ts";
import { runHere } from "../helpers/program.ts";

const run = promisify(execFile);
let script = "";
beforeAll(async () => {
  script = (await run(process.execPath, [await bundled("dist/cli/main.js"), "completion", "bash"])).stdout;
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

test("bash completes the words and flags of a subcommand, and the values that a flag may have", async () => {
  expect(await offered("keys", "")).toEqual(["create", "rotate", "revoke", "list"]);
  expect(await offered("keys", "cr")).toEqual(["create"]);
  expect(await offered("keys", "create")).toEqual(["create"]);
  expect(await offered("keys", "create", "--s")).toEqual(["--scope"]);
  expect(await offered("keys", "create", "billing", "--scope", "")).toEqual(["read", "spawn", "admin"]);
  expect(await offered("profile", "set", "--p")).toEqual(["--parent"]);
  expect(await offered("doctor", "")).toEqual(["replay"]);
  expect(await offered("doctor", "--fi")).toEqual(["--fix"]);
  expect(await offered("run", "hi", "--effort", "x")).toEqual(["xhigh"]);
  expect(await offered("run", "hi", "--effort", "low", "--effo")).toEqual(["--effort"]);
});

test("the scripts for zsh and fish know subcommands and values, too", async () => {
  const say = async (shell: string) =>
    (await runHere(["completion", shell], { cwd: process.cwd(), env: {} })).stdout.join("\n");
  const zsh = await say("zsh");
  expect(zsh).toMatch(
    /^ {4}"keys create"\|"keys create "\*\) .*'--scope\[[^\]]+\]:value:\(read spawn admin\)'/m,
  );
  expect(zsh).toMatch(/^ {4}"keys"\|"keys "\*\) .*'\*:word:\(create rotate revoke list\)';;$/m);
  const fish = await say("fish");
  const keys = "__fish_seen_subcommand_from keys; and";
  expect(fish).toContain(
    `-f -n '${keys} not __fish_seen_subcommand_from create rotate revoke list' -a create -d`,
  );
  expect(fish).toContain(
    `'${keys} __fish_seen_subcommand_from create' -l scope -r -f -a 'read spawn admin' -d`,
  );
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
