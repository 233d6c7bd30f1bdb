import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { STORED_COUNTS } from "../../../../src/shared/protocol/content.ts";
import { STORED_PROGRESS } from "../../../../src/shared/protocol/reply.ts";
import { luaSource, type VerbName } from "../../../../src/shared/redis/scripts.ts";
import type { Verb } from "../../../../src/shared/redis/verb.ts";
import { VERBS } from "../../../../src/shared/redis/verbs.ts";

const NAMES = Object.keys(VERBS) as VerbName[];
const LUA_DIR = new URL("../../../../src/shared/redis/lua/", import.meta.url);

/** A script's own text, without the shared rules and the locals. */
function own(name: VerbName): string {
  const source = luaSource(name);
  return source.slice(source.indexOf(`-- ${name}: `));
}

/** A header line and what follows it up to the next sentence of the header. */
function headerLine(name: VerbName, label: string): string {
  const match = new RegExp(`^-- ${label} (.*(?:\\n-- .*)*)`, "m").exec(own(name));
  return (match?.[1] ?? "").replaceAll(/\n-- +/g, " ");
}

test("there is one Lua file a verb, and every shared rule is included by some script", () => {
  const files = readdirSync(LUA_DIR).filter((file) => file.endsWith(".lua"));
  expect(files.sort()).toEqual(NAMES.map((name) => `${name}.lua`).sort());
  const rules = readdirSync(new URL("include/", LUA_DIR)).map((file) => file.replace(".lua", ""));
  const included = NAMES.flatMap(
    (name) => /^-- Include ([a-z, ]+)\.$/m.exec(own(name))?.[1]?.split(", ") ?? [],
  );
  expect([...new Set(["base", ...included])].sort()).toEqual(rules.sort());
});

test.for(NAMES)("%s reads the fields of a record and of stored lists by name, never by position", (name) => {
  const source = luaSource(name);
  expect(source).not.toMatch(/\bagent\[\d/);
  expect(source).not.toMatch(/\bcjson\.decode\([^()]*\)(?:\.\w+)*\[\d/);
  expect(source).not.toMatch(/=\s*unpack\(/);
});

test("where a script reads a stored list, it has the positions from the names that TypeScript writes by", () => {
  const order = (names: readonly string[]) => names.map((name, i) => `${name} = ${i + 1}`).join(", ");
  expect(luaSource("settle")).toContain(`local PROGRESS = { ${order(STORED_PROGRESS)} }`);
  for (const name of ["settle", "charge"] as const)
    expect(luaSource(name)).toContain(`local COUNTS = { ${order(STORED_COUNTS)} }`);
  expect(luaSource("append")).not.toMatch(/\b(?:PROGRESS|COUNTS)\b/);
});

test.for(NAMES)("every key and argument of %s is used by it or by a rule that it includes", (name) => {
  const { keys, context, args, lists = {} }: Verb = VERBS[name];
  const source = luaSource(name);
  for (const each of [...keys, ...context, ...Object.keys(args), ...Object.keys(lists)]) {
    const uses = source.match(new RegExp(`\\b${each}\\b`, "g")) ?? [];
    expect(uses.length, each).toBeGreaterThan(each in lists ? 2 : 1);
  }
});

/** The words with which some Lua answers. */
const wordsIn = (code: string) => [...code.matchAll(/\banswer\('([a-z_]+)'/g)].map(([, word]) => word);

test.for(NAMES)("every word that %s answers is one of its answers, and there is no other", (name) => {
  const rules = luaSource(name).matchAll(/^local function (\w+)\(.*(?:\n .*)*/gm);
  const called = [...rules].filter(([, rule]) => new RegExp(`return ${rule}\\(`).test(own(name)));
  const words = [...wordsIn(own(name)), ...called.flatMap(([body]) => wordsIn(body))];
  expect([...new Set(words)].sort()).toEqual(Object.keys(VERBS[name].answers).sort());
});

test.for(NAMES)("%s says which race it closes", (name) => {
  expect(headerLine(name, "Closes:").length).toBeGreaterThan(20);
});

test("no script spells a key or a channel: whatever it touches was handed to it", () => {
  for (const name of NAMES)
    expect([...luaSource(name).matchAll(/redis\.p?call\('[A-Z]+', ['"]/g)], `${name} spells a key`).toEqual(
      [],
    );
});

const WRITING = "H[A-Z]*SET|HSETNX|HDEL|HINCRBY|DEL|UNLINK|EXPIRE|PEXPIRE";

/** Whether the code writes the hash `record`, itself or by one of the functions named. */
function writesRecord(code: string, functions: readonly string[]): boolean {
  const byFunction = functions.length > 0 && new RegExp(`\\b(?:${functions.join("|")})\\(`).test(code);
  return (
    new RegExp(`\\bwrite\\(record\\b|redis\\.call\\('(?:${WRITING})', record\\b`).test(code) || byFunction
  );
}

/** The functions of the shared rules that write a record. */
function recordWriters(): string[] {
  const rules = readdirSync(new URL("include/", LUA_DIR)).map((file) =>
    readFileSync(new URL(`include/${file}`, LUA_DIR), "utf8"),
  );
  const functions = rules.flatMap((rule) => [
    ...rule.matchAll(/^local function (\w+)\((.* end$|[\s\S]*?^end)/gm),
  ]);
  const writers: string[] = [];
  for (let known = -1; known < writers.length; ) {
    known = writers.length;
    for (const [, name = "", body = ""] of functions)
      if (!writers.includes(name) && writesRecord(body, writers)) writers.push(name);
  }
  return writers;
}

test("docs/protocol.md names exactly the verbs that write a record", () => {
  const document = readFileSync(new URL("../../../../docs/protocol.md", import.meta.url), "utf8");
  const row = document.split("\n").find((line) => line.startsWith("| `agent.record` |")) ?? "";
  const named = [...(row.split("|")[5] ?? "").matchAll(/`([\w-]+)`/g)].map(([, verb]) => verb);
  const writers = recordWriters();
  expect(writers).toEqual(expect.arrayContaining(["commit", "queue", "queue_run"]));
  expect(named.sort()).toEqual(NAMES.filter((name) => writesRecord(own(name), writers)).sort());
});
