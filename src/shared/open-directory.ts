/**
 * Access by descriptor to the tree below an open directory, for parents that read a workspace and for its agent's tools.
 *
 * Neighbours: `workspace-files.ts` decides what a parent sees; `worker/tools/files/open.ts` which directories tools may
 * open.
 *
 * 1. No symbolic link is followed: each component is opened by itself with O_NOFOLLOW in a directory that is already open.
 *    So replacing it by a link at any moment changes nothing. (Systems other than Linux open it by path: there a swap
 *    between two components is not detected.)
 * 2. Opening never waits: a FIFO or a device answers at once.
 * 3. A walk is bounded in depth and entries. It lists only regular files, by name within a directory, files before
 *    subdirectories, so that two walks of one tree agree.
 */
import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, open, opendir } from "node:fs/promises";
import { join } from "node:path";
import { codeOf, messageOf, SubagentError } from "./errors.ts";
import { DRAFT_PREFIX } from "./protocol/ids.ts";

/** An open directory and its path. The holder closes the handle. */
export interface OpenDirectory {
  readonly handle: FileHandle;
  /** Host path, as walked; for comparing, never for showing. */
  readonly path: string;
}

const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const FILE = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY;

/** Returns a path to `name` in the open directory itself, even if the directory has been moved. */
export function pathIn({ handle, path }: OpenDirectory, name: string): string {
  return process.platform === "linux" ? `/proc/self/fd/${handle.fd}/${name}` : join(path, name);
}

/** Opens a directory; a link is not followed. Rejects with the system's error. */
export const openDirectoryAt = (path: string): Promise<FileHandle> => open(path, DIRECTORY);

/** Opens `name`, of any kind, for reading; a link is not followed. Rejects with the system's error. */
export const openFileIn = (directory: OpenDirectory, name: string): Promise<FileHandle> =>
  open(pathIn(directory, name), FILE);

/**
 * Compares `name` with the opened file. `single`: it is the file's only name; `several`: the file has other names, anywhere;
 * `other`: another file has the name now. The link count is read together with the name, after the open: the count of the
 * descriptor alone falls to one if the name is removed meanwhile.
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

/** Error codes that mean: the path does not exist, or not as the wanted kind. */
const ABSENT = new Set(["ENOENT", "ENOTDIR", "ELOOP", "EISDIR", "ENXIO", "ENAMETOOLONG"]);
/** Those of an entry that a list leaves out: an agent may lock one, and must not hide the others by it. */
export const UNLISTED = new Set([...ABSENT, "EACCES", "EPERM"]);

/** Opens a directory by its path, links included; returns undefined if there is none. Throws as {@link openBelow} does. */
export async function openRoot(path: string): Promise<OpenDirectory | undefined> {
  const handle = await orAbsent(open(path, constants.O_RDONLY | constants.O_DIRECTORY));
  return handle && { handle, path };
}

/** Opens the directory below `from` at `segments`, and closes `from`. Returns and throws as {@link openBelow} does. */
export async function descend(
  from: OpenDirectory,
  segments: readonly string[],
): Promise<OpenDirectory | undefined> {
  let directory: OpenDirectory | undefined = from;
  for (const name of segments) {
    if (!directory) return undefined;
    const above: OpenDirectory = directory;
    try {
      directory = await openBelow(above, name);
    } finally {
      await above.handle.close();
    }
  }
  return directory;
}

/**
 * Opens a directory; returns undefined for each error code in `absent`. Throws `rate_limited` if too many files are open,
 * `invalid_config` for any other code.
 */
export async function openBelow(
  directory: OpenDirectory,
  name: string,
  absent: ReadonlySet<string> = ABSENT,
): Promise<OpenDirectory | undefined> {
  const handle = await orAbsent(openDirectoryAt(pathIn(directory, name)), absent);
  return handle && { handle, path: join(directory.path, name) };
}

/** Opens a regular file with a single name; returns undefined for anything else. Throws as {@link openBelow} does. */
export async function openRegular(
  directory: OpenDirectory,
  name: string,
  absent: ReadonlySet<string> = ABSENT,
) {
  const handle = await orAbsent(openFileIn(directory, name), absent);
  if (!handle) return undefined;
  try {
    const stat = await handle.stat();
    if (stat.isFile() && (await orAbsent(nameOf(directory, name, stat))) === "single") {
      return { handle, size: stat.size, modifiedAt: stat.mtime.toISOString() };
    }
  } catch (error) {
    await handle.close();
    throw error;
  }
  await handle.close();
  return undefined;
}

async function orAbsent<T>(
  opening: Promise<T>,
  absent: ReadonlySet<string> = ABSENT,
): Promise<T | undefined> {
  try {
    return await opening;
  } catch (error) {
    if (absent.has(codeOf(error) ?? "")) return undefined;
    if (areTooManyOpen(error)) throw refusedOpening(error);
    const why = messageOf(error).split(",")[0];
    const sentence = `The workspaces cannot be read (${why}): give this process the rights of the workers.`;
    throw new SubagentError("invalid_config", sentence, {}, error);
  }
}

/** Returns true if the system opened nothing because too many files are open: what it was asked for is unknown. */
export function areTooManyOpen(error: unknown): boolean {
  const code = codeOf(error);
  return code === "EMFILE" || code === "ENFILE";
}

/** Returns `error`; where too many files are open, the refusal `rate_limited`: another time the files can be read. */
export function refusedOpening(error: unknown): unknown {
  if (!areTooManyOpen(error)) return error;
  const sentence =
    "Too many files are open in this process: try again later, or raise its limit (ulimit -n).";
  return new SubagentError("rate_limited", sentence, {}, error);
}

/** Content of a directory: its regular files except drafts, and its directories. */
export interface Listing {
  readonly files: readonly string[];
  readonly directories: readonly string[];
}

/** The files of one directory, which is open until the next step of the walk. */
export interface WalkStep<Directory> {
  readonly directory: Directory;
  readonly names: readonly string[];
}

/** Remaining budget of a walk. */
export interface WalkBudget {
  entriesLeft: number;
  exhausted: boolean;
  /** Set to true if directories below the maximum depth were left out. */
  tooDeep?: boolean;
}

const MAX_DEPTH = 40;
const MAX_ENTRIES = 50_000;

/** Creates a budget of 50,000 entries. */
export function createWalkBudget(): WalkBudget {
  return { entriesLeft: MAX_ENTRIES, exhausted: false };
}

/** Options of a walk. `Rules`: data that a directory passes to its subdirectories. */
export interface Walk<Directory extends OpenDirectory, Rules> {
  readonly budget: WalkBudget;
  readonly signal?: AbortSignal;
  /** Depth limit; 1 lists the start alone. Default and maximum: 40. */
  readonly maxDepth?: number | undefined;
  /** Opens a subdirectory; undefined leaves it out. */
  openBelow(directory: Directory, name: string): Promise<Directory | undefined>;
  /** Selects the entries to list and to enter, and the rules for the subdirectories. */
  choose(directory: Directory, listing: Listing, above: Rules): Promise<Listing & { rules: Rules }>;
}

/**
 * Walks from an open directory and closes it, also if the consumer stops early. `above`: rules for the start. Throws the
 * system's error where too many files are open, because the rest of the tree is unknown then.
 */
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
    if (below.length < directories.length && (walk.maxDepth ?? MAX_DEPTH + 1) > MAX_DEPTH)
      walk.budget.tooDeep = true;
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
  } catch (error) {
    // A directory that vanished or cannot be read counts as empty; the walk goes on with its neighbours.
    if (areTooManyOpen(error)) throw error;
  }
  return { files: files.sort(), directories: directories.sort() };
}
