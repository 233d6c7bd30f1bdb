/**
 * Limits the contents of an agent's workspace, in bytes and in files.
 *
 * 1. A workspace is counted once for a run. Writes of the file tools update the count; after a command it is counted again.
 * 2. Counting stops at twice the files of the quota, so that it costs no more than two full workspaces. Bytes do not stop it:
 *    otherwise what a command adds to a full workspace could be hidden behind what was there before.
 * 3. Nothing is hidden from the count by a name that is no text, by modes, or by a depth that no path reaches.
 */
import { lstat, statfs } from "node:fs/promises";
import { codeOf, ToolFailure } from "../../../shared/errors.ts";
import { areTooManyOpen } from "../../../shared/open-directory.ts";
import type { Area, Workspace } from "../workspace.ts";
import { listDirectory, startOf } from "./list.ts";
import type { Directory, FileLocation } from "./open.ts";

/** Contents of a workspace; directories count as files. */
export interface Holdings {
  readonly bytes: number;
  readonly files: number;
}

/** Unit in which the system counts blocks, on every disk. */
const BLOCK_BYTES = 512;

/** Maximum contents of a workspace: 1 GB in 50,000 files. */
const QUOTA: Holdings = { bytes: 1024 ** 3, files: 50_000 };

/** By the home of the workspace: each call of a tool has an object of its own for the workspace. */
const known = new WeakMap<Area, Holdings>();

/** Number of files where they cannot be counted, or only in part; exceeds any quota, because files could be hidden there. */
const UNCOUNTED = Number.POSITIVE_INFINITY;

/**
 * Counts the workspace on disk. More than twice the files of `quota` are not counted.
 *
 * @throws {ToolFailure} if this process has no file descriptor left: then it is not known whether the workspace is full.
 */
export async function countHoldings(
  { directory }: Pick<Workspace, "directory">,
  quota: Holdings = QUOTA,
): Promise<Holdings> {
  let [bytes, files] = [0, 0];
  const open = await startOf(directory).catch(refuseShortage);
  if (!open) return { bytes, files: UNCOUNTED };
  for (let here = open.pop(); here !== undefined; here = open.pop()) {
    try {
      for await (const { path, at, isDirectory } of listDirectory(here)) {
        files++;
        if (isDirectory) open.push(path);
        else bytes += await sizeOf(at);
        if (files > 2 * quota.files) return { bytes, files: UNCOUNTED };
      }
    } catch (error) {
      refuseShortage(error);
      // A directory that has vanished holds nothing.
      if (codeOf(error) !== "ENOENT") return { bytes, files: UNCOUNTED };
    }
  }
  return { bytes, files };
}

function refuseShortage(error: unknown): undefined {
  if (areTooManyOpen(error))
    throw new ToolFailure(
      "Your workspace cannot be counted now: there is no file descriptor left. Try again later.",
    );
}

/** Returns what the workspace holds; counts it if it is not known. */
export async function holdingsOf(workspace: Workspace, quota: Holdings = QUOTA): Promise<Holdings> {
  const held = known.get(workspace.home) ?? (await countHoldings(workspace, quota));
  known.set(workspace.home, held);
  return held;
}

/** Checks whether these contents exceed the quota. */
export function exceeds({ bytes, files }: Holdings, quota: Holdings = QUOTA): boolean {
  return bytes > quota.bytes || files > quota.files;
}

/**
 * Checks whether a command must be stopped that has found `before` and left `now` so far: the workspace is full, and holds
 * more than before or cannot be counted. A command that empties a full workspace goes on.
 */
export function overfills(before: Holdings, now: Holdings): boolean {
  const isMore = now.bytes > before.bytes || now.files > before.files || now.files === UNCOUNTED;
  return isMore && exceeds(now);
}

/** Returns the room on the disk of the workspace, bytes; {@link UNCOUNTED} if the system does not say. */
export async function freeBytes({ directory }: Workspace): Promise<number> {
  try {
    const { bavail, bsize } = await statfs(directory);
    return bavail * bsize;
  } catch {
    return UNCOUNTED;
  }
}

/** Room on the disk that a command must leave, bytes: more than it can take between two counts. */
const LEAST_FREE_BYTES = 4 * 1024 ** 3;

/** Returns the room that a command must leave where it found `free`: on a disk that is nearly full, half of it. */
export function leastFree(free: number): number {
  return Math.min(LEAST_FREE_BYTES, free / 2);
}

/** Makes the next look count the workspace again, because something other than the file tools changed it. */
export function forgetHoldings(workspace: Workspace): void {
  known.delete(workspace.home);
}

/**
 * Books a write of `more` into the workspace. Call it inside {@link Workspace.exclusive}.
 *
 * @throws {ToolFailure} if the workspace would exceed the quota.
 */
export async function bookWrite(
  workspace: Workspace,
  more: Holdings,
  quota: Holdings = QUOTA,
): Promise<void> {
  const held = await holdingsOf(workspace, quota);
  const then = { bytes: Math.max(0, held.bytes + more.bytes), files: held.files + more.files };
  const grows = more.bytes > 0 || more.files > 0;
  if (grows && exceeds(then, quota)) {
    throw new ToolFailure(
      `Your workspace is full (${quota.bytes / 1024 ** 2} MB, ${quota.files} files): shorten or replace what stands there.`,
    );
  }
  known.set(workspace.home, then);
}

/**
 * Books the new size of the file at a place, and runs `write`; a write that fails is not booked. The operator has to limit the
 * contents of a root. The replaced file frees at most what was counted for it (its blocks) or booked for it (its size),
 * whichever is less.
 */
export async function writeBooked(
  workspace: Workspace,
  { directory, stat }: FileLocation,
  bytes: number,
  write: () => Promise<void>,
): Promise<void> {
  if (directory.area.kind !== "workspace") return write();
  const held = await holdingsOf(workspace);
  const freed = stat === undefined ? 0 : Math.min(stat.size, stat.blocks * BLOCK_BYTES);
  await bookWrite(workspace, { bytes: bytes - freed, files: stat === undefined ? 1 : 0 });
  try {
    await write();
  } catch (error) {
    known.set(workspace.home, held);
    throw error;
  }
}

/** Books a directory before it is created in another one. */
export async function bookDirectory(workspace: Workspace, { area }: Directory): Promise<void> {
  if (area.kind === "workspace") await bookWrite(workspace, { bytes: 0, files: 1 });
}

async function sizeOf(path: Buffer): Promise<number> {
  try {
    // Counts blocks rather than size: a sparse file takes only its blocks.
    return (await lstat(path)).blocks * BLOCK_BYTES;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return 0;
    throw error;
  }
}
