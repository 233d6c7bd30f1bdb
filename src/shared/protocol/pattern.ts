/**
 * Patterns with stars, as permission rules have them: of words, and of paths. Pure.
 *
 * 1. Rules and texts are strangers': a text is read once, whatever the pattern, for the parts between the stars of words are looked for one
 *    behind the other. What matching costs is counted; taking a rule apart is not, for rules are short. Who is judged by the
 *    answer asks first whether {@link Work} is left: without it the answer is worth nothing.
 */

/** Longest pattern. */
export const PATTERN_MAX_CHARS = 256;

/** How much may still be matched, in characters; a character that several places of a pattern wait for counts so often. */
export interface Work {
  left: number;
}

/** Whether a pattern matches a text. */
export type Matches = (text: string, work: Work) => boolean;

/** A star stands for any characters. `git:*`, as the ecosystem writes it, is `git` alone and `git *`; so is `git *`. */
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
 * Whether a program that is given names of files which only the shell knows may be what a pattern refuses: if more than the
 * program stands in the pattern. Matches the program's name.
 */
export function globbedPattern(pattern: string): Matches {
  const [program = "", ...others] = pattern.replace(/:\*$/, " *").split(" ");
  if (program.includes("*")) return () => true;
  if (others.every((word) => /^\**$/.test(word))) return () => false;
  return (text) => text === program;
}

/**
 * A path that is permitted: `*` stays within a directory, `**` goes on. A pattern without a slash is held against the last
 * name, as in a .gitignore.
 */
export function pathPattern(pattern: string): Matches {
  const glob = normalised(pattern);
  const tokens = tokensOf(glob.match(/^\*\*\/|\*+|[^*]/gs));
  const isName = !glob.includes("/");
  return (path, work) => read(tokens, isName ? lastName(path) : path, work) === "all";
}

/**
 * A path that is refused: also by an absolute spelling of it, so the pattern may begin at any name, and two stars between slashes
 * stand for no directory, too. `isSearched`: everything below the path is meant, so that it is refused also above what the
 * pattern names; a path from the root or from above the workspace may be above whatever a relative pattern names.
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

/** A path without `.`, and with `..` taken back: two spellings of one path are one. */
export function normalised(path: string): string {
  const names: string[] = [];
  for (const name of path.replaceAll("\\", "/").split("/")) {
    if (name === "" || name === ".") continue;
    if (name === ".." && names.length > 0 && names.at(-1) !== "..") names.pop();
    else names.push(name);
  }
  return (path.startsWith("/") ? "/" : "") + names.join("/");
}

/** Whether only the machine knows what stands there: the path does not begin in the workspace. */
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

/** A pattern, by its tokens: of what kind each is, and which character. */
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

/** `all`: the tokens match the text. `begin`: they match the beginning of what it may go on to. */
function read({ kinds, chars }: Tokens, text: string, work: Work): "all" | "begin" | "none" {
  const end = kinds.length;
  // At each place: whether the tokens before it match what has been read. None is reached beyond `high`.
  const isReached = [true, ...kinds.map(() => false)];
  let [high, beginsName] = [0, true];
  for (let at = 0; ; at += 1) {
    // Where a star is reached, what follows it is, too.
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
