/** Guarantee: each promise of the README names the guard that it stands on, and the test it cites is what holds that guard. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { z } from "zod";

const ROOT = join(import.meta.dirname, "../..");
const text = (path: string) => readFileSync(join(ROOT, path), "utf8");
const Mutants = z.array(z.object({ id: z.string(), tests: z.array(z.string()).min(1) }));

async function mutantsOf(list: string) {
  const module: unknown = await import(pathToFileURL(join(ROOT, "test/mutants", `${list}.mjs`)).href);
  return z.object({ default: Mutants }).parse(module).default;
}

/** The rows of the table: what each cites, and the mutant that it names. */
function promises() {
  const lines = text("README.md").split("\n");
  expect(lines.filter((line) => line.startsWith("| promise |"))).toHaveLength(1);
  const first = lines.indexOf("| promise | shown by | goes red without |") + 2;
  const rows = lines.slice(first, lines.indexOf("", first));
  return rows.map((row) => {
    const [promise = "", shownBy = "", mutant = ""] = row.slice(2, -2).split(" | ");
    const cited = [...shownBy.matchAll(/`([^`]+)`/g)].map(([, path = ""]) => path);
    return { promise, cited, mutant: mutant.replaceAll("`", "") };
  });
}

test("every promise names a mutant, and each mutant of a promise stands in one row", async () => {
  expect(promises().length).toBeGreaterThan(20);
  const named = promises().map(({ mutant }) => mutant);
  expect(named.sort()).toEqual((await mutantsOf("promises")).map(({ id }) => id).sort());
});

test("the test that must kill the mutant of a promise is one that its row cites", async () => {
  const mutants = new Map((await mutantsOf("promises")).map((mutant) => [mutant.id, mutant]));
  const wrong = promises().filter(({ cited, mutant }) => {
    const { tests = [] } = mutants.get(mutant) ?? {};
    return !tests.every((path) => existsSync(join(ROOT, path)) && cited.some((one) => path.endsWith(one)));
  });
  expect(wrong).toEqual([]);
});
