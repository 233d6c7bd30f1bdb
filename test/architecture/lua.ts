/** Lua scripts open with a header, and have what they are handed as locals by name: the table of verbs makes them. */
import type { Violation } from "./source.ts";

/** A Lua file of the repository. */
export interface LuaFile {
  path: string;
  text: string;
}

/** Reads the items of lists out of ARGV for all scripts. */
const READS_LISTS = "src/shared/redis/lua/include/base.lua";

/** Scripts without a header, and every use of KEYS or ARGV but for {@link READS_LISTS}'s. */
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

/** The code with comments and the insides of strings blanked; line numbers stay. */
function withoutComments(text: string): string {
  const tokens =
    /--\[(=*)\[[\s\S]*?\]\1\]|--[^\n]*|"(?:\\[\s\S]|[^"\\\n])*"|'(?:\\[\s\S]|[^'\\\n])*'|\[(=*)\[[\s\S]*?\]\2\]/g;
  return text.replaceAll(tokens, (token) => token.replaceAll(/[^\n]/g, " "));
}
