/**
 * Lists the numbered invariants without a test. Exits with code 1 if there is one, or if `invariants.json` names a test or an
 * invariant that does not exist.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { heldInvariants, numberedInvariants } from "./invariants.ts";

const root = join(import.meta.dirname, "../..");
const nameOf = ({ file, number }: { file: string; number: number }) => `${file} ${number}`;
const say = (line: string) => process.stdout.write(`${line}\n`);

const all = numberedInvariants(root);
const names = new Set(all.map(nameOf));
const held = heldInvariants(root);
const wrong = held.filter(({ test, title, ...invariant }) => {
  const path = join(root, test);
  if (title.trim() === "") return true;
  return !names.has(nameOf(invariant)) || !existsSync(path) || !readFileSync(path, "utf8").includes(title);
});
const holding = new Set(held.map(nameOf));
const left = all.filter((invariant) => !holding.has(nameOf(invariant)));
for (const invariant of left) say(`${nameOf(invariant)}. ${invariant.sentence}`);
for (const { test, title, ...invariant } of wrong)
  say(`not there: ${nameOf(invariant)}, or in ${test}: ${title}`);
say(`${all.length - left.length} of ${all.length} invariants have a test that is named for them`);
if (wrong.length > 0 || left.length > 0) process.exitCode = 1;
