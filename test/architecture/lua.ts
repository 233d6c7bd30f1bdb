/** Rules for Lua: a script begins with a header, and reads its input from named locals that the table of verbs generates. */
import type { Violation } from "./source.ts";

/** A Lua file of the repository. */
export interface LuaFile {
  path: string;
  text: string;
}

/** The one file that may read ARGV: it reads list items for all scripts. */
const READS_LISTS = "src/shared/redis/lua/include/base.lua";

/** Finds scripts without a header, and uses of KEYS or ARGV outside of {@link READS_LISTS}. */
export function findUnnamedInput(files: readonly LuaFile[]): Violation[] {
  return files.flatMap(({ path, text }) => {
    const found: Violation[] = [];
    if (!/^--.*[A-Za-z]{2}/.test(text)) {
      found.push({
        path,
        line: 1,
        message: "a script opens with a header: its purpose, and the race it closes",
      });
    }
    if (path === READS_LISTS) return found;
    for (const match of withoutComments(text).matchAll(/\b(KEYS|ARGV)\b/g)) {
      const line = text.slice(0, match.index).split("\n").length;
      found.push({
        path,
        line,
        message: `${match[1]} is read by position: the table of verbs gives it a name`,
      });
    }
    return found;
  });
}

/** Returns the code with comments and strings replaced by spaces; line numbers stay the same. */
function withoutComments(text: string): string {
  const tokens =
    /--\[(=*)\[[\s\S]*?\]\1\]|--[^\n]*|"(?:\\[\s\S]|[^"\\\n])*"|'(?:\\[\s\S]|[^'\\\n])*'|\[(=*)\[[\s\S]*?\]\2\]/g;
  return text.replaceAll(tokens, (token) => token.replaceAll(/[^\n]/g, " "));
}
