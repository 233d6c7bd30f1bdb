/**
 * What stands below an open directory, reached by descriptor: so parents read a workspace, and so do the tools of its agent.
 *
 * Neighbours: `workspace-files.ts` says what a parent is shown; `worker/tools/files/open.ts` which directories tools may open.
 *
 * 1. No symbolic link is ever followed: each component is opened by itself with O_NOFOLLOW in a directory that is already
 *    open, so swapping it for a link at any moment changes nothing. (Where the system has no /proc/self/fd, by path: there a swap
 *    between two components is not caught.)
 * 2. Opening never waits: a FIFO or a device answers at once.
 * 3. A walk is bounded in depth and entries, and shows regular files alone, by name within a directory, files before
 *    subdirectories, so that two walks of one tree agree.
 */
import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, open, opendir } from "node:fs/promises";
import { join } from "node:path";
import { DRAFT_PREFIX } from "./protocol/ids.ts";

/** An open directory, and where it was found; its holder closes its handle. */
export interface OpenDirectory {
  readonly handle: FileHandle;
  /** The host path, as it was walked; for comparing, never for showing. */
  readonly path: string;
}

const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const FILE = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY;

/** A path by which the system reaches `name` in the open directory itself, wherever that has been moved. */
export function pathIn({ handle, path }: OpenDirectory, name: string): string {
  return process.platform === "linux" ? `/proc/self/fd/${handle.fd}/${name}` : join(path, name);
}

/** Opens a directory; a link is not followed. Rejects as the system does. */
export const openDirectoryAt = (path: string): Promise<FileHandle> => open(path, DIRECTORY);

/** Opens whatever `name` is, for reading; a link is not followed. Rejects as the system does. */
export const openFileIn = (directory: OpenDirectory, name: string): Promise<FileHandle> =>
  open(pathIn(directory, name), FILE);

/**
 * How `name` and the opened file stand to each other: `single`: it is the file's only name; `several`: it has others, which may
 * stand anywhere; `other`: by now something else has the name. The count is read together with the name, after the open: that of
 * the descriptor alone falls to one when the name is removed meanwhile.
 */
export async function nameOf(
  directory: OpenDirectory,
  name: string,
  opened: Stats,
): Promise<"single" | "several" | "other"> {
  const named = await lstat(pathIn(directory, name));
  if (named.ino !== opened.ino || named.dev !== opened.dev) return "other";
  return named.nlink > 1 ? "several" : "single";
}

/** What a directory holds: its regular files but drafts, and its directories. */
export interface Listing {
  readonly files: readonly string[];
  readonly directories: readonly string[];
}

/** The files of one directory, which is open until the next step of the walk. */
export interface WalkStep<Directory> {
  readonly directory: Directory;
  readonly names: readonly string[];
}

/** What a walk may still cost. */
export interface WalkBudget {
  entriesLeft: number;
  exhausted: boolean;
}

const MAX_DEPTH = 40;
const MAX_ENTRIES = 50_000;

/** A fresh budget: 50,000 entries. */
export function createWalkBudget(): WalkBudget {
  return { entriesLeft: MAX_ENTRIES, exhausted: false };
}

/** How a tree is walked. `Rules` is what a directory tells those below it. */
export interface Walk<Directory extends OpenDirectory, Rules> {
  readonly budget: WalkBudget;
  readonly signal?: AbortSignal;
  /** 1 lists the start alone; default, and most: 40. */
  readonly maxDepth?: number | undefined;
  /** Opens a directory below another one; undefined leaves it out. */
  openBelow(directory: Directory, name: string): Promise<Directory | undefined>;
  /** What of a directory is shown and entered, and what those below are told. */
  choose(directory: Directory, listing: Listing, above: Rules): Promise<Listing & { rules: Rules }>;
}

/** Walks from an open directory, which it closes, also when the consumer stops early. `above` is what the start is told. */
export async function* walkTree<Directory extends OpenDirectory, Rules>(
  start: Directory,
  walk: Walk<Directory, Rules>,
  above: Rules,
): AsyncGenerator<WalkStep<Directory>, void, void> {
  yield* walkFrom(start, walk, above, Math.min(walk.maxDepth ?? MAX_DEPTH, MAX_DEPTH));
}

async function* walkFrom<Directory extends OpenDirectory, Rules>(
  directory: Directory,
  walk: Walk<Directory, Rules>,
  above: Rules,
  depth: number,
): AsyncGenerator<WalkStep<Directory>, void, void> {
  try {
    const { files, directories } = await list(directory, walk);
    const below = depth > 1 ? directories : [];
    const chosen = await walk.choose(directory, { files, directories: below }, above);
    if (chosen.files.length > 0) yield { directory, names: chosen.files };
    for (const name of chosen.directories) {
      if (walk.signal?.aborted || walk.budget.exhausted) return;
      const child = await walk.openBelow(directory, name);
      if (child !== undefined) yield* walkFrom(child, walk, chosen.rules, depth - 1);
    }
  } finally {
    await directory.handle.close();
  }
}

/** Reads entry by entry, so that a directory of a million files costs no more than the budget. */
async function list(
  directory: OpenDirectory,
  { budget, signal }: Pick<Walk<never, never>, "budget" | "signal">,
): Promise<Listing> {
  const files: string[] = [];
  const directories: string[] = [];
  try {
    for await (const entry of await opendir(pathIn(directory, "."), { bufferSize: 256 })) {
      if (signal?.aborted) break;
      if (budget.entriesLeft <= 0) {
        budget.exhausted = true;
        break;
      }
      budget.entriesLeft--;
      if (entry.isFile() && !entry.name.startsWith(DRAFT_PREFIX)) files.push(entry.name);
      else if (entry.isDirectory()) directories.push(entry.name);
    }
  } catch {
    // A directory that vanished or may not be read has nothing to show; its neighbours still do.
  }
  return { files: files.sort(), directories: directories.sort() };
}
