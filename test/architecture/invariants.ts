/**
 * The numbered invariants at the heads of modules, and the tests that hold them: `invariants.json` names for each the test
 * file and words of its title. `npm run invariants` lists those that no test is named for.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { globSync } from "tinyglobby";
import { z } from "zod";

/** An invariant by the module whose head says it. */
export interface Invariant {
  /** Path below the repository. */
  file: string;
  number: number;
  /** Its first line. */
  sentence: string;
}

/** Which test holds an invariant; `title`: words of the test's name. */
export interface HeldInvariant {
  file: string;
  number: number;
  test: string;
  title: string;
}

const Held = z.record(z.string(), z.record(z.string(), z.tuple([z.string(), z.string()])));

/** All numbered invariants of `src`, by path and number. */
export function numberedInvariants(root: string): Invariant[] {
  const files = globSync(["src/**/*.{ts,js}"], { cwd: root }).sort();
  return files.flatMap((file) => {
    const text = readFileSync(join(root, file), "utf8");
    const [head = ""] = text.startsWith("/**") ? text.split("*/", 1) : [];
    return [...head.matchAll(/^ \* (\d+)\. (.*)$/gm)].map(([, number, sentence = ""]) => ({
      file,
      number: Number(number),
      sentence,
    }));
  });
}

/** The invariants that a test is named for. */
export function heldInvariants(root: string): HeldInvariant[] {
  const text = readFileSync(join(root, "test/architecture/invariants.json"), "utf8");
  return Object.entries(Held.parse(JSON.parse(text))).flatMap(([file, held]) =>
    Object.entries(held).map(([number, [test, title]]) => ({ file, number: Number(number), test, title })),
  );
}
