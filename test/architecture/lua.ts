/** Lua scripts open with a header that names every KEYS and ARGV slot they use. */
import type { Violation } from "./source.ts";

/** A Lua file of the repository. */
export interface LuaFile {
  path: string;
  text: string;
}

/**
 * Slots that are used and not named in the header, and scripts without a header. The header is the run of comment
 * lines at the top; it names slots as `KEYS[1]`, as a range `ARGV[3..7]`, or open-ended `ARGV[4..]`. A computed
 * index needs an open-ended range.
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
    const named = namedSlots(header);
    const missing = usedSlots(withoutComments(text)).filter(
      (slot) => !named.some((range) => covers(range, slot)),
    );
    return missing.map(({ table, index, line }) => {
      const slot = `${table}[${index ?? "n"}]`;
      const how = index === undefined ? `an open-ended range such as ${table}[2..]` : slot;
      return { path, line, message: `${slot} is used; the header does not name ${how}` };
    });
  });
}

interface Range {
  table: string;
  from: number;
  to: number;
}

interface Slot {
  table: string;
  /** Undefined for a computed index. */
  index: number | undefined;
  line: number;
}

function namedSlots(header: string): Range[] {
  return [...header.matchAll(/\b(KEYS|ARGV)\[(\d+)(?:(\.\.)(\d+)?)?\]/g)].map(([, table, from, dots, to]) => {
    const open = dots === undefined ? Number(from) : Number.POSITIVE_INFINITY;
    return { table: table ?? "", from: Number(from), to: to === undefined ? open : Number(to) };
  });
}

function usedSlots(code: string): Slot[] {
  return [...code.matchAll(/\b(KEYS|ARGV)\s*\[\s*([^\]]*?)\s*\]/g)].map((match) => ({
    table: match[1] ?? "",
    index: /^\d+$/.test(match[2] ?? "") ? Number(match[2]) : undefined,
    line: code.slice(0, match.index).split("\n").length,
  }));
}

function covers({ table, from, to }: Range, slot: Slot): boolean {
  if (table !== slot.table) return false;
  return slot.index === undefined ? to === Number.POSITIVE_INFINITY : slot.index >= from && slot.index <= to;
}

/** The code with comments and the insides of strings blanked; line numbers stay. */
function withoutComments(text: string): string {
  const tokens =
    /--\[(=*)\[[\s\S]*?\]\1\]|--[^\n]*|"(?:\\[\s\S]|[^"\\\n])*"|'(?:\\[\s\S]|[^'\\\n])*'|\[(=*)\[[\s\S]*?\]\2\]/g;
  return text.replaceAll(tokens, (token) => token.replaceAll(/[^\n]/g, " "));
}
