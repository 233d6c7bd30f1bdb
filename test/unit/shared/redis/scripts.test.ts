import { readdirSync } from "node:fs";
import { expect, test } from "vitest";
import { SCRIPTS, type ScriptName } from "../../../../src/shared/redis/script-table.ts";
import { luaSource } from "../../../../src/shared/redis/scripts.ts";

const NAMES = Object.keys(SCRIPTS) as ScriptName[];
const LUA_DIR = new URL("../../../../src/shared/redis/lua/", import.meta.url);

/** A script's own text, without the prelude. */
function own(name: ScriptName): string {
  const source = luaSource(name);
  return source.slice(source.indexOf(`-- ${name}: `));
}

/** A header line and its indented continuation. */
function headerLine(name: ScriptName, label: string): string {
  const match = new RegExp(`^-- ${label} (.*(?:\\n--   .*)*)`, "m").exec(own(name));
  return (match?.[1] ?? "").replaceAll(/\n-- +/g, " ");
}

/** The names that a script's code gives to KEYS or ARGV, by position. */
function localsOf(name: ScriptName, table: string): string[] {
  const names: string[] = [];
  for (const [, left = "", right = ""] of own(name).matchAll(/^local ([a-z_, ]+) = (.*)$/gm)) {
    const values = right.split(/, (?![^(]*\))/);
    for (const [i, local] of left.split(", ").entries()) {
      const position = new RegExp(`^(?:tonumber\\()?${table}\\[(\\d+)\\]\\)?$`).exec(values[i] ?? "")?.[1];
      if (position) names[Number(position) - 1] = local;
    }
  }
  return names;
}

test("there is one Lua file a script, and the prelude", () => {
  expect(readdirSync(LUA_DIR).sort()).toEqual([...NAMES, "prelude"].map((name) => `${name}.lua`).sort());
});

test.for(NAMES)("the header of %s names its keys and arguments as the registry does, in order", (name) => {
  const { keys, args } = SCRIPTS[name];
  expect(headerLine(name, "KEYS").split(" ")).toEqual([...keys]);
  const named = headerLine(name, "ARGV").replace(/ \(.*\)…$/, "");
  expect(named === "-" ? [] : named.split(" ")).toEqual([...args]);
});

test.for(NAMES)("%s gives its keys and arguments the registry's names", (name) => {
  const renamed: Record<string, string> = { "settle.status": "reply_status" };
  const named = (each: string) => renamed[`${name}.${each}`] ?? each;
  expect(localsOf(name, "KEYS")).toEqual([...SCRIPTS[name].keys]);
  expect(localsOf(name, "ARGV")).toEqual(SCRIPTS[name].args.map(named));
});

test.for(NAMES)("the header of %s lists the registry's answers and their values, in order", (name) => {
  const listed = headerLine(name, "Returns")
    .split("|")
    .map((answer) => /^([a-z_]+)(?:\{([^}]*)\})?$/.exec(answer.trim()) ?? [])
    .map(([, word, values]) => ({
      word,
      values: (values ?? "").split(", ").filter((value) => value !== ""),
    }));
  const renamed: Record<string, string> = { status: "agent_status" };
  const registered = Object.entries(SCRIPTS[name].answers);
  expect(listed.map(({ word }) => word)).toEqual(registered.map(([word]) => word));
  for (const [i, [, fields]] of registered.entries()) {
    const values = (listed[i]?.values ?? []).map((value) => renamed[value] ?? value);
    expect(values.slice(0, fields.length)).toEqual([...fields]);
    for (const open of values.slice(fields.length))
      expect(open, "beyond the named values only lists").toMatch(/…|key|stored/);
  }
});

test.for(NAMES)("every word that %s answers is one of its registered answers", (name) => {
  const words = [...own(name).matchAll(/return \{ '([a-z_]+)'|(?:same|answer|conflict) = \{ '([a-z_]+)'/g)];
  const answered = new Set(words.map(([, direct, kept]) => direct ?? kept));
  expect([...answered].sort()).toEqual(Object.keys(SCRIPTS[name].answers).sort());
});

test.for(NAMES)("%s says which race it closes", (name) => {
  expect(headerLine(name, "Closes:").length).toBeGreaterThan(20);
});

test("no script spells a key or a channel: whatever it touches was handed to it", () => {
  for (const name of NAMES)
    expect([...own(name).matchAll(/redis\.call\('[A-Z]+', ['"]/g)], `${name} spells a key`).toEqual([]);
});
