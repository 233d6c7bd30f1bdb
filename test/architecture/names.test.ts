import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import {
  findHiddenActors,
  findPrivateWords,
  findUnknownFileNames,
  glossaryOf,
  PRIVATE_WORDS,
} from "./names.ts";
import { openProgram } from "./program.ts";
import { readTree } from "./rules.ts";

const ROOT = join(import.meta.dirname, "../..");
const tree = readTree(ROOT);
afterAll(() => tree.close());
const document = readFileSync(join(ROOT, "docs/architecture.md"), "utf8");

/** Private words that are not out of all names yet. A word that is gone from them goes from here. */
const STILL_USED: ReadonlySet<string> = new Set([
  "examination",
  "fate",
  "fault",
  "judge",
  "look",
  "misfit",
  "place",
  "quarantine",
  "sight",
  "surroundings",
  "valve",
  "wish",
]);

/** Sentences that hide who acts. The number only goes down. */
const HIDDEN_ACTORS = 74;

function said({ path, line, message }: { path: string; line: number; message: string }): string {
  return `${path}:${line} ${message}`;
}

test("a glossary of at most 25 words opens docs/architecture.md", () => {
  expect(glossaryOf(document).length).toBeGreaterThan(15);
  expect(glossaryOf(document).length).toBeLessThanOrEqual(25);
  expect(document.split("\n## ")[1]).toMatch(/^Words\n/);
});

test("file names are made of the glossary's words and the field's", () => {
  expect(findUnknownFileNames(tree.paths, glossaryOf(document)).map(said)).toEqual([]);
});

test("no export, field or Lua local has a private word in its name", () => {
  expect(findPrivateWords(tree.sources, tree.lua, STILL_USED).map(said)).toEqual([]);
});

test("what is listed as not renamed yet still stands in a name", () => {
  const gone = [...STILL_USED].filter((word) => {
    const others = new Set([...PRIVATE_WORDS.keys()].filter((each) => each !== word));
    return findPrivateWords(tree.sources, tree.lua, others).length === 0;
  });
  expect(gone).toEqual([]);
});

test("fewer and fewer sentences hide who acts", () => {
  expect(findHiddenActors(tree.sources, tree.lua).length).toBeLessThanOrEqual(HIDDEN_ACTORS);
});

describe("the rules on names", () => {
  const path = join(ROOT, "names-in-memory/src/a.ts");
  const config = join(ROOT, "names-in-memory/tsconfig.json");
  const text =
    "export const openValve = 1; export interface Agent { barren_deaths: 1; deaths: 2 } // nobody may\nconst look = 1;";
  const files = {
    [path]: text,
    [config]: JSON.stringify({ extends: "../tsconfig.json", include: [], files: [path] }),
  };
  const program = openProgram({ root: ROOT, config, files });
  afterAll(() => program.close());
  const lua = [
    { path: "src/a.lua", text: "local live, looks_left = 1, 2\nlocal function mend_it() end\n-- a look" },
  ];

  test("find private words in exports, fields and Lua locals, and in nothing else", () => {
    const found = findPrivateWords(program.sources, lua, new Set()).map(({ message }) => message);
    expect(found).toEqual([
      'openValve: say "pause reasons"',
      'barren_deaths: say "crashes without progress"',
      'looks_left: say "checks"',
      'mend_it: say "repair"',
    ]);
    expect(findPrivateWords(program.sources, lua, new Set(PRIVATE_WORDS.keys()))).toEqual([]);
  });

  test("find a comment that hides who acts", () => {
    expect(findHiddenActors(program.sources, lua)).toHaveLength(1);
  });

  test("find a file name outside of the glossary and the field's terms", () => {
    const paths = [
      "src/worker/turnstile.ts",
      "src/worker/pool.ts",
      "src/worker/run/claim-run.ts",
      "test/turnstile.ts",
    ];
    expect(findUnknownFileNames(paths, ["worker", "claim", "run"]).map(({ path }) => path)).toEqual([
      "src/worker/turnstile.ts",
    ]);
    expect(findUnknownFileNames(["src/worker/pool.ts"], [])).toHaveLength(1);
  });

  test("read no word where there is no glossary", () => {
    expect(glossaryOf("# A\n\n## States\n\n| word | meaning |\n")).toEqual([]);
    expect(
      glossaryOf("# A\n\n## Words\n\n| word | meaning |\n| --- | --- |\n| epoch | x |\n\n## B\n| no |"),
    ).toEqual(["epoch"]);
  });
});
