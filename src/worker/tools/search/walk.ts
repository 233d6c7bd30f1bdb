/**
 * Lists the files that a search reads.
 *
 * 1. `.git`, `node_modules` and the directory of all workspaces are never entered. Paths that a `.gitignore` names are left
 *    out in its directory and below; so are files and directories that may not be opened.
 * 2. A walk fails if too many files are open: a directory that it could not read may have a match.
 */
import { join } from "node:path";
import { ToolFailure } from "../../../shared/errors.ts";
import {
  type Listing,
  type WalkStep as Step,
  type WalkBudget,
  walkTree,
} from "../../../shared/open-directory.ts";
import { openNamed, readHead } from "../files/file.ts";
import { type Directory, openChild } from "../files/open.ts";
import { plainFailure, shownPath } from "../files/path.ts";
import type { Matcher } from "./matcher.ts";

/** The regular files of one directory, which is open until the next step of the walk. */
export type WalkStep = Step<Directory>;

/**
 * Bounds of a walk. `matcher` runs the rules of `.gitignore` files; `maxDepth` 1 lists the start only; `hidden` is a host
 * path that is not entered.
 */
export interface WalkOptions {
  readonly budget: WalkBudget;
  readonly hidden: string;
  readonly signal: AbortSignal;
  readonly matcher: Matcher;
  readonly maxDepth?: number;
}

/** Notice of a search whose budget says that it was too deep. */
export const TOO_DEEP = "directories more than 40 levels deep were not searched; give one of them as path";

const SKIPPED: ReadonlySet<string> = new Set([".git", "node_modules"]);

/**
 * Walks from an open directory; closes it, even if the consumer stops early.
 *
 * @throws {ToolFailure} `unavailable` if too many files are open.
 */
export async function* walkFiles(
  start: Directory,
  { budget, hidden, signal, matcher, maxDepth }: WalkOptions,
): AsyncGenerator<WalkStep, void, void> {
  /** Rules that timed out or failed once: they are not tried in other directories. */
  const unusable = new Set<IgnoreRules>();
  const walk = {
    ...{ budget, signal, maxDepth },
    async choose(directory: Directory, listing: Listing, above: IgnoreRules) {
      const entered = listing.directories.filter((name) => !SKIPPED.has(name)).map((name) => `${name}/`);
      const rules = await withRulesOf(directory, listing.files, above);
      const names = [...listing.files, ...entered];
      const found = unusable.has(rules) ? undefined : await withoutIgnored(matcher, rules, directory, names);
      if (found === undefined) unusable.add(rules);
      const kept = found ?? names;
      const files = kept.filter((name) => !name.endsWith("/"));
      const directories = kept.filter((name) => name.endsWith("/")).map((name) => name.slice(0, -1));
      return { files, directories, rules };
    },
    async openBelow(directory: Directory, name: string) {
      if (join(directory.path, name) === hidden) return undefined;
      return openChild(directory, name).catch((error: unknown) => leftOut(error, name));
    },
  };
  try {
    yield* walkTree<Directory, IgnoreRules>(start, walk, []);
  } catch (error) {
    throw plainFailure(error, shownPath(start.area, start.segments));
  }
}

/**
 * Leaves out an entry that could not be opened.
 *
 * @throws {ToolFailure} `unavailable` if too many files are open: another time it could be.
 */
export function leftOut(error: unknown, path: string): undefined {
  const failure = plainFailure(error, path);
  if (failure instanceof ToolFailure && failure.reason === "unavailable") throw failure;
}

const IGNORE_FILE = ".gitignore";
/** Longest `.gitignore` that is followed, in bytes. A longer one is ignored: cut within a rule, it would name other files. */
const IGNORE_MAX_BYTES = 64 * 1024;

/** The rules that hold in one directory of a walk, the outermost first. */
type IgnoreRules = readonly { readonly depth: number; readonly text: string }[];

/** Returns the rules for `directory`: those of its parents, and its own if `.gitignore` is in `names`. */
async function withRulesOf(
  directory: Directory,
  names: readonly string[],
  above: IgnoreRules,
): Promise<IgnoreRules> {
  if (!names.includes(IGNORE_FILE)) return above;
  const file = await openNamed(directory, IGNORE_FILE, IGNORE_FILE).catch((error: unknown) =>
    leftOut(error, IGNORE_FILE),
  );
  if (!file) return above;
  try {
    const bytes = await readHead(file, IGNORE_MAX_BYTES + 1);
    if (bytes.length > IGNORE_MAX_BYTES) return above;
    return [...above, { depth: directory.segments.length, text: bytes.toString("utf8") }];
  } catch {
    return above;
  } finally {
    await file.handle.close();
  }
}

/**
 * Returns the `names` in `directory` that no rule ignores; directories end in a slash. Undefined if the rules time out or fail:
 * nothing is ignored then, and a search finds more than it should, never less.
 */
async function withoutIgnored(
  matcher: Matcher,
  rules: IgnoreRules,
  directory: Directory,
  names: readonly string[],
): Promise<readonly string[] | undefined> {
  if (rules.length === 0 || names.length === 0) return names;
  const innermostFirst = rules.toReversed().map(({ depth, text }) => ({
    text,
    above: directory.segments
      .slice(depth)
      .map((segment) => `${segment}/`)
      .join(""),
  }));
  try {
    const ignored = new Set(await matcher.ignored(innermostFirst, names));
    return names.filter((_, index) => !ignored.has(index));
  } catch (error) {
    if (error instanceof ToolFailure && error.reason === "too_slow") return undefined;
    throw error;
  }
}
