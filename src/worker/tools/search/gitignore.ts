/** Which entries of a tree its `.gitignore` files leave out, each counting for the directory it lies in and below. */

import { ToolFailure } from "../../../shared/errors.ts";
import { openNamed, readHead } from "../files/file.ts";
import type { Directory } from "../files/open.ts";
import type { Matcher } from "./matcher.ts";

const FILE = ".gitignore";
/** What lies beyond is not read: rules are short. */
const MAX_BYTES = 64 * 1024;

/** The rules that hold in one directory of a walk, the outermost first. */
export type IgnoreRules = readonly { readonly depth: number; readonly text: string }[];

/** The rules in force in `directory`: those of the directories above it, and its own if `.gitignore` is in `names`. */
export async function withRulesOf(
  directory: Directory,
  names: readonly string[],
  above: IgnoreRules,
): Promise<IgnoreRules> {
  if (!names.includes(FILE)) return above;
  const file = await openNamed(directory, FILE, FILE).catch(() => undefined);
  if (!file) return above;
  try {
    const text = (await readHead(file, MAX_BYTES)).toString("utf8");
    return [...above, { depth: directory.segments.length, text }];
  } catch {
    return above;
  } finally {
    await file.handle.close();
  }
}

/**
 * The `names` in `directory` that no rule leaves out; directories end in a slash. Rules that take too long leave nothing
 * out: a search then finds more than it should, never less.
 */
export async function withoutIgnored(
  matcher: Matcher,
  rules: IgnoreRules,
  directory: Directory,
  names: readonly string[],
): Promise<readonly string[]> {
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
    if (error instanceof ToolFailure && error.reason === "too_slow") return names;
    throw error;
  }
}
