/** Which words the completion scripts have for a verb, its arguments and `help`. */
import { expect, test } from "vitest";
import { runHere } from "../helpers/program.ts";
import { CLEAN } from "../helpers/program-on-stage.ts";

const scriptFor = async (shell: string) =>
  (await runHere(["completion", shell], { cwd: process.cwd(), env: CLEAN })).stdout.join("\n");

test("bash knows --help of every verb, the words of an argument, and the verbs behind help", async () => {
  const script = await scriptFor("bash");
  expect(script).toMatch(/^ {4}"list "\*\) flags="[^"]*--json --help"; choices="";;$/m);
  expect(script).toMatch(/^ {4}"completion "\*\) flags="--help"; choices="bash zsh fish";;$/m);
  expect(script).toMatch(/^ {4}"help "\*\) flags=""; choices="start run worker [^"]*completion";;$/m);
});

test("an apostrophe ends no text for fish", async () => {
  const lines = (await scriptFor("fish"))
    .split("\n")
    .filter((line) => /\w'\w/.test(line.replace(/\\'/g, "")));
  expect(lines).toEqual([]);
  expect(await scriptFor("fish")).toMatch(/\w\\'\w/);
});
