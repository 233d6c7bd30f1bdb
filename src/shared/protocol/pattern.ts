/**
 * Patterns with stars for permission rules: of words, and of paths. Pure.
 *
 * 1. Rules and texts are untrusted. A word pattern reads a text once: it searches the parts between its stars one after
 *    another. The cost of matching is counted; that of parsing a rule is not, because rules are short. A caller first checks
 *    whether {@link Work} is left: without it the answer is invalid.
 */

/** Maximum length of a pattern. */
export const PATTERN_MAX_CHARS = 256;

/** Work left for matching, in characters. A character that is compared at several places of a pattern counts for each. */
export interface Work {
  left: number;
}

/** Returns true if a pattern matches a text. */
export type Matches = (text: string, work: Work) => boolean;

/** Compiles a pattern of words; a star matches any characters. `git:*` (a common form) and `git *` also match `git` alone. */
export function wordsPattern(pattern: string): Matches {
  const glob = pattern.replace(/:\*$/, " *");
  const [first = "", ...others] = glob.split(/\*+/);
  const last = others.pop();
  const isOpen = glob.endsWith(" *");
  return (words, work) => {
    work.left -= pattern.length;
    if (last === undefined) return words === first;
    const text = isOpen ? `${words} ` : words;
    if (!text.startsWith(first)) return false;
    work.left -= text.length;
    if (work.left < 0) return false;
    let at = first.length;
    for (const other of others) {
      const found = text.indexOf(other, at);
      if (found < 0) return false;
      at = found + other.length;
    }
    return at + last.length <= text.length && text.endsWith(last);
  };
}

/**
 * Compiles a refusing pattern for a program whose file names only the shell knows. It matches the program's name if the
 * pattern contains more than the program.
 */
export function globbedPattern(pattern: string): Matches {
  const [program = "", ...others] = pattern.replace(/:\*$/, " *").split(" ");
  if (program.includes("*")) return () => true;
  if (others.every((word) => /^\**$/.test(word))) return () => false;
  return (text) => text === program;
}

/**
 * Compiles a permitting pattern of paths: `*` stays within a directory, `**` does not. A pattern without a slash is compared
 * with the last name, as in a .gitignore.
 */
export function pathPattern(pattern: string): Matches {
  const glob = normalised(pattern);
  const tokens = tokensOf(glob.match(/^\*\*\/|\*+|[^*]/gs));
  const isName = !glob.includes("/");
  return (path, work) => read(tokens, isName ? lastName(path) : path, work) === "all";
}

/**
 * Compiles a refusing pattern of paths. It also matches absolute spellings of a path, so it may begin at any name; two stars
 * between slashes also match no directory. `isSearched`: the path means everything below it, so a path above a refused one
 * matches too. A path from the root or from above the workspace may lie above any path that a relative pattern names.
 */
export function refusedPathPattern(pattern: string, isSearched: boolean): Matches {
  if (isSearched && !pattern.includes("/")) return () => true;
  const glob = normalised(pattern);
  const spelled = glob.match(/(?<![^/])\*\*\/|\*+|[^*]/gs) ?? [];
  const tokens = tokensOf(spelled);
  const anywhere = tokensOf(["**/", ...spelled]);
  const isName = !glob.includes("/");
  const isRelative = !glob.startsWith("/");
  return (path, work) => {
    const isNamed = isName ? read(tokens, lastName(path), work) : read(anywhere, path, work);
    if (isNamed === "all") return true;
    if (!isSearched) return false;
    if (path === "" || path === "/" || (isRelative && isFromElsewhere(path))) return true;
    return read(tokens, `${path}/`, work) !== "none";
  };
}

/** Returns a path without `.` and with `..` resolved: two spellings of one path become equal. */
export function normalised(path: string): string {
  const names: string[] = [];
  for (const name of path.replaceAll("\\", "/").split("/")) {
    if (name === "" || name === ".") continue;
    if (name === ".." && names.length > 0 && names.at(-1) !== "..") names.pop();
    else names.push(name);
  }
  return (path.startsWith("/") ? "/" : "") + names.join("/");
}

/** Returns true if the path does not begin in the workspace, so that only the host knows its target. */
function isFromElsewhere(path: string): boolean {
  return path.startsWith("/") || path === ".." || path.startsWith("../");
}

function lastName(path: string): string {
  return path === "/" ? path : path.slice(path.lastIndexOf("/") + 1);
}

const CHARACTER = 0;
/** Any characters of one name. */
const PART = 1;
/** Any characters at all. */
const ANY = 2;
/** Nothing, or whole names with their slashes. */
const NAMES = 3;
const SLASH = "/".charCodeAt(0);

/** Tokens of a pattern: the kind of each, and its character. */
interface Tokens {
  kinds: readonly number[];
  chars: readonly number[];
}

function tokensOf(spelled: readonly string[] | null): Tokens {
  const all = spelled ?? [];
  const kindOf = (token: string) => {
    if (!token.startsWith("*")) return CHARACTER;
    return token.endsWith("/") ? NAMES : token.length > 1 ? ANY : PART;
  };
  return { kinds: all.map(kindOf), chars: all.map((token) => token.charCodeAt(0)) };
}

/** Matches tokens with a text. `all`: they match it; `begin`: they match the beginning of a longer text. */
function read({ kinds, chars }: Tokens, text: string, work: Work): "all" | "begin" | "none" {
  const end = kinds.length;
  // For each place: true if the tokens before it match the text read so far. None is reached beyond `high`.
  const isReached = [true, ...kinds.map(() => false)];
  let [high, beginsName] = [0, true];
  for (let at = 0; ; at += 1) {
    // If a star is reached, so is the place after it.
    for (let place = 0; place <= high; place += 1) {
      const kind = kinds[place] ?? CHARACTER;
      if (!isReached[place] || kind === CHARACTER || (kind === NAMES && !beginsName)) continue;
      isReached[place + 1] = true;
      if (place === high) high += 1;
    }
    work.left -= high + 1;
    if (work.left < 0) return "none";
    if (at === text.length) break;
    const char = text.charCodeAt(at);
    beginsName = char === SLASH;
    let highest = -1;
    for (let place = high; place >= 0; place -= 1) {
      if (!isReached[place]) continue;
      const kind = place < end ? kinds[place] : undefined;
      const goesOn = kind === CHARACTER && chars[place] === char;
      const stays = kind === ANY || kind === NAMES || (kind === PART && !beginsName);
      isReached[place] = stays;
      if (goesOn) isReached[place + 1] = true;
      if (goesOn || stays) highest = Math.max(highest, goesOn ? place + 1 : place);
    }
    if (highest < 0) return "none";
    high = highest;
  }
  return isReached[end] ? "all" : "begin";
}
