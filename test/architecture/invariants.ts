/**
 * Reads the numbered invariants in the header comments of modules. `invariants.json` maps each to a test file and words of
 * a test title. `npm run invariants` lists the invariants without an entry.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { globSync } from "tinyglobby";
import { z } from "zod";

/** A numbered invariant and the module whose header comment states it. */
export interface Invariant {
  /** Path below the repository. */
  file: string;
  number: number;
  /** Its first line. */
  sentence: string;
}

/** The test that covers an invariant; `title`: words of the test's name. */
export interface HeldInvariant {
  file: string;
  number: number;
  test: string;
  title: string;
}

const Held = z.record(z.string(), z.record(z.string(), z.tuple([z.string(), z.string()])));

/** Returns all numbered invariants of `src`, sorted by path. */
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

/** Reads the invariants that have a test from `invariants.json`. */
export function heldInvariants(root: string): HeldInvariant[] {
  const text = readFileSync(join(root, "test/architecture/invariants.json"), "utf8");
  return Object.entries(Held.parse(JSON.parse(text))).flatMap(([file, held]) =>
    Object.entries(held).map(([number, [test, title]]) => ({ file, number: Number(number), test, title })),
  );
}
