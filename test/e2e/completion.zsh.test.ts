/** The script for zsh, read by bash: no zsh is needed for the syntax that both have. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { runHere } from "../helpers/program.ts";

const run = promisify(execFile);
let script = "";
beforeAll(async () => {
  script = (await runHere(["completion", "zsh"], { cwd: process.cwd(), env: {} })).stdout.join("\n");
});

/** Returns what the script registers and offers where zsh, in this context, has loaded it at the first word. */
async function loadedIn(context: string): Promise<string[]> {
  const asked = `compdef() { echo "registers $*"; }; _describe() { printf '%s\\n' "\${verbs[@]}"; }
zsh_eval_context=(${context}); CURRENT=2
${script}`;
  return (await run("bash", ["--norc", "-c", asked])).stdout.split("\n").filter(Boolean);
}

test("zsh, which loads a file of fpath when a word is first completed, is answered then", async () => {
  const [registered, ...offered] = await loadedIn("toplevel shfunc loadautofunc");
  expect(registered).toBe("registers _subagent_queue subagent-queue");
  expect(offered).toContain("run:give each prompt to a sub-agent of its own and print the replies");
  expect(offered).toContain("mcp:serve a parent's tools to an MCP client over standard input and output");
  expect(offered).toContainEqual(expect.stringMatching(/^ps:show every parent\\: what runs/));
});

test("a zsh that sources the script is told what to complete, and nothing is offered", async () => {
  expect(await loadedIn("toplevel file")).toEqual(["registers _subagent_queue subagent-queue"]);
});
