import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { EXEMPTIONS } from "./architecture/exemptions.ts";
import { findUpwardRows, ROOMS } from "./architecture/rooms.ts";
import { RULE_NAMES, RULES, readTree } from "./architecture/rules.ts";

const tree = readTree(join(import.meta.dirname, ".."));
afterAll(() => tree.close());

function isExempt(rule: string, path: string): boolean {
  return EXEMPTIONS.some((exemption) => exemption.rule === rule && exemption.path === path);
}

test.for(RULE_NAMES)("%s", (rule) => {
  const broken = RULES[rule](tree).filter(({ path }) => !isExempt(rule, path));
  expect(broken.map(({ path, line, message }) => `${path}:${line} ${message}`)).toEqual([]);
});

test("every exemption has a reason and is still needed", () => {
  const needless = EXEMPTIONS.filter(({ rule, path, reason }) => {
    return reason.length < 20 || !RULES[rule](tree).some((violation) => violation.path === path);
  });
  expect(needless).toEqual([]);
});

test("no room may import a room below it, so that no way leads round", () => {
  expect(findUpwardRows(ROOMS)).toEqual([]);
  expect(findUpwardRows([...ROOMS].reverse())).not.toEqual([]);
});

test("the rules look at this repository", () => {
  expect(tree.paths).toContain("test/architecture.test.ts");
  expect(tree.sources.map(({ path }) => path)).toContain("src/index.ts");
});
