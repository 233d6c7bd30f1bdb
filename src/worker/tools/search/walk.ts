/**
 * Lists the files that a search looks at.
 *
 * 1. `.git`, `node_modules` and the directory of all workspaces are never entered; what a `.gitignore` on the way names is left
 *    out, and so is what may not be opened.
 */
import { join } from "node:path";
import {
  type Listing,
  type WalkStep as Step,
  type WalkBudget,
  walkTree,
} from "../../../shared/open-directory.ts";
import { type Directory, openChild } from "../files/open.ts";
import { type IgnoreRules, withoutIgnored, withRulesOf } from "./gitignore.ts";
import type { Matcher } from "./matcher.ts";

/** The regular files of one directory, which is open until the next step of the walk. */
export type WalkStep = Step<Directory>;

/**
 * Bounds of a walk. `matcher` runs what `.gitignore` files say; `maxDepth` 1 lists the start alone; `hidden` is a host
 * path that is not entered.
 */
export interface WalkOptions {
  readonly budget: WalkBudget;
  readonly hidden: string;
  readonly signal: AbortSignal;
  readonly matcher: Matcher;
  readonly maxDepth?: number;
}

const SKIPPED: ReadonlySet<string> = new Set([".git", "node_modules"]);

/** Walks from an open directory, which it closes, also when the consumer stops early. */
export function walkFiles(
  start: Directory,
  { budget, hidden, signal, matcher, maxDepth }: WalkOptions,
): AsyncGenerator<WalkStep, void, void> {
  const walk = {
    ...{ budget, signal, maxDepth },
    async choose(directory: Directory, listing: Listing, above: IgnoreRules) {
      const entered = listing.directories.filter((name) => !SKIPPED.has(name)).map((name) => `${name}/`);
      const rules = await withRulesOf(directory, listing.files, above);
      const kept = await withoutIgnored(matcher, rules, directory, [...listing.files, ...entered]);
      const files = kept.filter((name) => !name.endsWith("/"));
      const directories = kept.filter((name) => name.endsWith("/")).map((name) => name.slice(0, -1));
      return { files, directories, rules };
    },
    async openBelow(directory: Directory, name: string) {
      if (join(directory.path, name) === hidden) return undefined;
      return openChild(directory, name).catch(() => undefined);
    },
  };
  return walkTree<Directory, IgnoreRules>(start, walk, []);
}
