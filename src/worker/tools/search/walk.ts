/**
 * Lists a tree of regular files by descriptor, in a bounded way.
 *
 * 1. Symbolic links, FIFOs, devices and sockets are never entered nor reported, `.git` and `node_modules` never entered;
 *    what a `.gitignore` on the way names is left out.
 * 2. Order is by name within a directory, files before subdirectories, so that two walks of one tree agree.
 * 3. Depth, number of entries and time are bounded; `budget.exhausted` says that a walk ended early.
 */
import { opendir } from "node:fs/promises";
import { join } from "node:path";
import { DRAFT_PREFIX } from "../../../shared/protocol/ids.ts";
import { pathIn } from "../../../shared/workspace-files.ts";
import { type Directory, openChild } from "../files/open.ts";
import { type IgnoreRules, withoutIgnored, withRulesOf } from "./gitignore.ts";
import type { Matcher } from "./matcher.ts";

/** The regular files of one directory, which is open until the next step of the walk. */
export interface WalkStep {
  readonly directory: Directory;
  readonly names: readonly string[];
}

/** What a walk may still cost. */
export interface WalkBudget {
  entriesLeft: number;
  exhausted: boolean;
}

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

const MAX_DEPTH = 40;
const MAX_ENTRIES = 50_000;
const SKIPPED: ReadonlySet<string> = new Set([".git", "node_modules"]);

/** A fresh budget: 50,000 entries. */
export function createWalkBudget(): WalkBudget {
  return { entriesLeft: MAX_ENTRIES, exhausted: false };
}

/** Walks from an open directory, which it closes, also when the consumer stops early. */
export async function* walkTree(
  start: Directory,
  options: WalkOptions,
): AsyncGenerator<WalkStep, void, void> {
  yield* walkFrom(start, options, Math.min(options.maxDepth ?? MAX_DEPTH, MAX_DEPTH), []);
}

async function* walkFrom(
  directory: Directory,
  options: WalkOptions,
  depth: number,
  above: IgnoreRules,
): AsyncGenerator<WalkStep, void, void> {
  try {
    const { files, directories } = await list(directory, options);
    const rules = await withRulesOf(directory, files, above);
    const below = depth > 1 ? directories.map((name) => `${name}/`) : [];
    const kept = await withoutIgnored(options.matcher, rules, directory, [...files, ...below]);
    const names = kept.filter((name) => !name.endsWith("/"));
    if (names.length > 0) yield { directory, names };
    for (const spelled of kept.filter((name) => name.endsWith("/"))) {
      const name = spelled.slice(0, -1);
      if (options.signal.aborted || options.budget.exhausted) return;
      if (join(directory.path, name) === options.hidden) continue;
      const child = await openChild(directory, name).catch(() => undefined);
      if (child !== undefined) yield* walkFrom(child, options, depth - 1, rules);
    }
  } finally {
    await directory.handle.close();
  }
}

interface Listing {
  readonly files: string[];
  readonly directories: string[];
}

/** Reads entry by entry, so that a directory of a million files costs no more than the budget. */
async function list(directory: Directory, { budget, signal }: WalkOptions): Promise<Listing> {
  const files: string[] = [];
  const directories: string[] = [];
  try {
    for await (const entry of await opendir(pathIn(directory, "."), { bufferSize: 256 })) {
      if (signal.aborted) break;
      if (budget.entriesLeft <= 0) {
        budget.exhausted = true;
        break;
      }
      budget.entriesLeft--;
      if (entry.isFile() && !entry.name.startsWith(DRAFT_PREFIX)) files.push(entry.name);
      else if (entry.isDirectory() && !SKIPPED.has(entry.name)) directories.push(entry.name);
    }
  } catch {
    // A directory that vanished or may not be read has nothing to show; its neighbours still do.
  }
  return { files: files.sort(), directories: directories.sort() };
}
