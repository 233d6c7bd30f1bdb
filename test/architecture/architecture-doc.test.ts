/** `docs/architecture.md` says where things are: every file of its index is there, and has the function that stands beside it. */
import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const ROOT = new URL("../../", import.meta.url);
const DOC = readFileSync(new URL("docs/architecture.md", ROOT), "utf8");

/** A place of the index: a file, and the function or method (`Class.method`) to begin with. */
interface Place {
  path: string;
  name: string | undefined;
}

/** The rows of the index, each with its question and its places. */
function indexOf(document: string): { question: string; places: Place[] }[] {
  const section = document.split(/^## /m).find((part) => part.startsWith("Where is what\n")) ?? "";
  const rows = section.split("\n").filter((line) => line.startsWith("|"));
  return rows.slice(2).map((row) => {
    const [, question = "", where = ""] = row.split("|").map((cell) => cell.trim());
    const places = [...where.matchAll(/`([^`]+\.(?:ts|lua))`(?: `([^`]+)`)?/g)];
    return { question, places: places.map(([, path = "", name]) => ({ path, name })) };
  });
}

/** What is wrong with a place; undefined when it is there. A script needs no function, a file of TypeScript does. */
function problemOf({ path, name }: Place): string | undefined {
  const file = new URL(path.endsWith(".lua") ? `src/shared/redis/lua/${path}` : `src/${path}`, ROOT);
  if (!existsSync(file)) return `${path} is not there`;
  if (name === undefined) return path.endsWith(".lua") ? undefined : `${path} stands without a function`;
  const source = readFileSync(file, "utf8");
  const [method = "", owner] = name.split(".").reverse();
  const isThere = owner
    ? new RegExp(`^(?:export )?class ${owner}\\b[^]*?^  (?:async )?${method}\\(`, "m").test(source)
    : new RegExp(`^(?:export |local )?(?:async )?(?:function|class) ${method}\\b`, "m").test(source);
  return isThere ? undefined : `${path} has no ${name}`;
}

test("every row of the index names its files and functions as they are", () => {
  const index = indexOf(DOC);
  expect(index.length).toBeGreaterThan(20);
  expect(index.filter(({ places }) => places.length === 0)).toEqual([]);
  expect(index.flatMap(({ places }) => places.map(problemOf)).filter(Boolean)).toEqual([]);
});

test("a file, function or method of the index that is gone is found", () => {
  const row = (where: string) => indexOf(`## Where is what\n\n| a | b |\n| - | - |\n| Who? | ${where} |\n`);
  const problems = (where: string) => row(where).flatMap(({ places }) => places.map(problemOf));
  expect(problems("`worker/sweeper.ts` `check` → `claim.lua`")).toEqual([undefined, undefined]);
  expect(problems("`worker/sweeper.ts` `clean` → `take.lua`")).toEqual([
    "worker/sweeper.ts has no clean",
    "take.lua is not there",
  ]);
  expect(
    problems("`worker/run/session.ts` `Session.commit`, `worker/run/session.ts` `Session.save`"),
  ).toEqual([undefined, "worker/run/session.ts has no Session.save"]);
  expect(problems("`worker/sweeper.ts`")).toEqual(["worker/sweeper.ts stands without a function"]);
});
