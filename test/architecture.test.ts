import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { EXEMPTIONS } from "./architecture/exemptions.ts";
import { findUnusedRows, findUpwardRows } from "./architecture/imports.ts";
import {
  findHiddenActors,
  findNounlessComments,
  findPrivateWords,
  findUnknownFileNames,
  glossaryOf,
  PRIVATE_WORDS,
} from "./architecture/names.ts";
import { ROOMS } from "./architecture/rooms.ts";
import { RULE_NAMES, RULES, type RuleName, readTree } from "./architecture/rules.ts";
import type { Violation } from "./architecture/source.ts";

const ROOT = join(import.meta.dirname, "..");
/** The one reading of the repository: compiling it takes seconds of both cores. */
const tree = readTree(ROOT);
afterAll(() => tree.close());

/** Private words that are not out of all names yet. A word that is gone from them goes from here. */
const STILL_USED: ReadonlySet<string> = new Set();

/** Sentences that hide who acts: the user `nobody` of Linux, and a word to the model. The number only goes down. */
const HIDDEN_ACTORS = 3;

function said({ path, line, message }: Violation): string {
  return `${path}:${line} ${message}`;
}

/** What each rule finds, found once. */
const FOUND = new Map<RuleName, readonly Violation[]>();

function findBroken(rule: RuleName): readonly Violation[] {
  const found = FOUND.get(rule) ?? RULES[rule](tree);
  FOUND.set(rule, found);
  return found;
}

function isExempt(rule: string, path: string): boolean {
  return EXEMPTIONS.some((exemption) => exemption.rule === rule && exemption.path === path);
}

test.for(RULE_NAMES)("%s", (rule) => {
  const broken = findBroken(rule).filter(({ path }) => !isExempt(rule, path));
  expect(broken.map(said)).toEqual([]);
});

test("every exemption has a reason and is still needed", () => {
  const needless = EXEMPTIONS.filter(({ rule, path, reason }) => {
    return reason.length < 20 || !findBroken(rule).some((violation) => violation.path === path);
  });
  expect(needless).toEqual([]);
});

test("no room may import a room below it, so that no way leads round", () => {
  expect(findUpwardRows(ROOMS)).toEqual([]);
  expect(findUpwardRows([...ROOMS].reverse())).not.toEqual([]);
});

test("every room has a file, and every import that a room or a door allows is made", () => {
  expect(findUnusedRows(tree.sources)).toEqual([]);
  const without = tree.sources.filter(({ path }) => path !== "src/service/agent-protocol/callback.ts");
  expect(findUnusedRows(without)).toEqual(["src/service/agent-protocol/callback.ts -> global fetch"]);
});

test("the rules look at this repository", () => {
  expect(tree.paths).toContain("test/architecture.test.ts");
  expect(tree.sources.map(({ path }) => path)).toContain("src/index.ts");
});

describe("names", () => {
  const document = readFileSync(join(ROOT, "docs/architecture.md"), "utf8");

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

  test("comments begin with a noun or a verb", () => {
    expect(findNounlessComments(tree.sources, tree.lua)).toEqual([]);
  });
});
