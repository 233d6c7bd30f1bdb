/** Lua scripts open with a header that names every KEYS and ARGV slot they use. */
import type { Violation } from "./source.ts";

/** A Lua file of the repository. */
export interface LuaFile {
  path: string;
  text: string;
}

/**
 * Slots that are used and not named in the header, and scripts without a header. The header is the run of comment
 * lines at the top; its lines `KEYS a b` and `ARGV c d (e f)…` name the slots in their order, `(…)…`
 * standing for all that follow; a further ARGV line is indented. A computed index needs such an open end.
 */
export function findUnnamedSlots(files: readonly LuaFile[]): Violation[] {
  return files.flatMap(({ path, text }) => {
    const lines = text.split("\n");
    const firstCode = lines.findIndex((line) => !line.startsWith("--"));
    const header = lines.slice(0, firstCode === -1 ? lines.length : firstCode).join("\n");
    if (!/[A-Za-z]{2}/.test(header)) {
      return [
        {
          path,
          line: 1,
          message: "a script opens with a header: purpose, KEYS, ARGV, returns, the race it closes",
        },
      ];
    }
    const named = { KEYS: namesIn(header, "KEYS"), ARGV: namesIn(header, "ARGV") };
    const missing = usedSlots(withoutComments(text)).filter(({ table, index }) => {
      const { count, open } = named[table];
      return index === undefined ? !open : index > count && !open;
    });
    return missing.map(({ table, index, line }) => ({
      path,
      line,
      message: `${table}[${index ?? "n"}] is used; the header's ${table} line names only ${named[table].count}`,
    }));
  });
}

interface Slot {
  table: "KEYS" | "ARGV";
  /** Undefined for a computed index. */
  index: number | undefined;
  line: number;
}

/** The names on a header's KEYS or ARGV line, its indented continuation lines included. */
function namesIn(header: string, table: string): { count: number; open: boolean } {
  const line = new RegExp(`^-- ${table} (.*(?:\\n--  .*)*)`, "m").exec(header)?.[1] ?? "";
  const fixed = line.replace(/\([^)]*\)…/g, "").replaceAll("\n--", " ");
  const names = fixed.split(/\s+/).filter((name) => /^[a-z_]+$/.test(name));
  return { count: names.length, open: line.includes(")…") };
}

function usedSlots(code: string): Slot[] {
  return [...code.matchAll(/\b(KEYS|ARGV)\s*\[\s*([^\]]*?)\s*\]/g)].map((match) => ({
    table: match[1] === "KEYS" ? "KEYS" : "ARGV",
    index: /^\d+$/.test(match[2] ?? "") ? Number(match[2]) : undefined,
    line: code.slice(0, match.index).split("\n").length,
  }));
}

/** The code with comments and the insides of strings blanked; line numbers stay. */
function withoutComments(text: string): string {
  const tokens =
    /--\[(=*)\[[\s\S]*?\]\1\]|--[^\n]*|"(?:\\[\s\S]|[^"\\\n])*"|'(?:\\[\s\S]|[^'\\\n])*'|\[(=*)\[[\s\S]*?\]\2\]/g;
  return text.replaceAll(tokens, (token) => token.replaceAll(/[^\n]/g, " "));
}
