/**
 * How much an agent may leave in its workspace, in bytes and in files.
 *
 * 1. A workspace is counted once for a run, then kept up by what the file tools write, and counted again after a command.
 * 2. Counting stops where the quota is exceeded, so that it costs no more than a full workspace.
 * 3. Nothing is hidden from it by a name that is no text, by modes, or by a depth that no path reaches.
 */
import { lstat } from "node:fs/promises";
import { ToolFailure } from "../../../shared/errors.ts";
import type { Workspace } from "../workspace.ts";
import { codeOf, listDirectory, startOf } from "./list.ts";
import type { Directory, Place } from "./open.ts";

/** What a workspace holds, directories counted as files. */
export interface Holdings {
  readonly bytes: number;
  readonly files: number;
}

/** What the system counts blocks in, whatever the disk does. */
const BLOCK_BYTES = 512;

/** The most that a workspace may hold: 1 GB in 50,000 files. */
const QUOTA: Holdings = { bytes: 1024 ** 3, files: 50_000 };

const known = new WeakMap<Workspace, Holdings>();

/** What cannot be counted is more than any quota: else it would be the place to hide in. */
const UNCOUNTED = Number.POSITIVE_INFINITY;

/** Counts what stands on the disk, to a little beyond `quota` at most. */
export async function countHoldings({ directory }: Workspace, quota: Holdings = QUOTA): Promise<Holdings> {
  let [bytes, files] = [0, 0];
  const open = await startOf(directory);
  for (let here = open.pop(); here !== undefined; here = open.pop()) {
    try {
      for await (const { path, at, isDirectory } of listDirectory(here)) {
        files++;
        if (isDirectory) open.push(path);
        else bytes += await sizeOf(at);
        if (exceeds({ bytes, files }, quota)) return { bytes, files };
      }
    } catch (error) {
      // One that has vanished holds nothing.
      if (codeOf(error) !== "ENOENT") return { bytes, files: UNCOUNTED };
    }
  }
  return { bytes, files };
}

/** Whether these are more than the quota allows. */
export function exceeds({ bytes, files }: Holdings, quota: Holdings = QUOTA): boolean {
  return bytes > quota.bytes || files > quota.files;
}

/** The workspace is counted before the next write: something other than the file tools changed it. */
export function forgetHoldings(workspace: Workspace): void {
  known.delete(workspace);
}

/**
 * Books a write of `more` into the workspace. Call it inside {@link Workspace.exclusive}.
 *
 * @throws {ToolFailure} when the workspace would hold more than the quota.
 */
export async function bookWrite(
  workspace: Workspace,
  more: Holdings,
  quota: Holdings = QUOTA,
): Promise<void> {
  const held = known.get(workspace) ?? (await countHoldings(workspace, quota));
  const then = { bytes: Math.max(0, held.bytes + more.bytes), files: held.files + more.files };
  const grows = more.bytes > 0 || more.files > 0;
  if (grows && exceeds(then, quota)) {
    known.set(workspace, held);
    throw new ToolFailure(
      `Your workspace is full (${quota.bytes / 1024 ** 2} MB, ${quota.files} files): shorten or replace what stands there.`,
    );
  }
  known.set(workspace, then);
}

/**
 * Books that the file at a place will have so many bytes; what stands in a root is the operator's to bound. The file that it
 * replaces makes no more room than it was counted for (its blocks) or booked for (its size), whichever is less.
 */
export async function bookPlace(
  workspace: Workspace,
  { directory, stat }: Place,
  bytes: number,
): Promise<void> {
  if (directory.area.kind !== "workspace") return;
  const freed = stat === undefined ? 0 : Math.min(stat.size, stat.blocks * BLOCK_BYTES);
  await bookWrite(workspace, { bytes: bytes - freed, files: stat === undefined ? 1 : 0 });
}

/** Books a directory that will be made in another one. */
export async function bookDirectory(workspace: Workspace, { area }: Directory): Promise<void> {
  if (area.kind === "workspace") await bookWrite(workspace, { bytes: 0, files: 1 });
}

async function sizeOf(path: Buffer): Promise<number> {
  try {
    // Blocks rather than size: a sparse file takes what it takes.
    return (await lstat(path)).blocks * BLOCK_BYTES;
  } catch (error) {
    if (codeOf(error) === "ENOENT") return 0;
    throw error;
  }
}
