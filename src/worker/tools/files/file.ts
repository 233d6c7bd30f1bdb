/**
 * Opens, reads and replaces the regular file behind a place.
 *
 * `open.ts` made sure that the place is inside; this module keeps it so.
 *
 * 1. Nothing is read before the open descriptor itself is checked. It must be a regular file, and in the workspace one with
 *    a single name (a second hard link may be anywhere). A FIFO, device or socket is refused without waiting.
 * 2. A file is replaced as a whole by a rename inside the open directory. A crash leaves the old or the new content; the
 *    bytes behind a hard link elsewhere never change.
 */
import { randomUUID } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { type FileHandle, lstat, open, rename, unlink } from "node:fs/promises";
import { ToolFailure } from "../../../shared/errors.ts";
import { nameOf, openFileIn, pathIn } from "../../../shared/open-directory.ts";
import { DRAFT_PREFIX } from "../../../shared/protocol/ids.ts";
import type { Workspace } from "../workspace.ts";
import { type Directory, type FileLocation, giveToOwner, openLocation, otherDevice } from "./open.ts";
import { plainFailure, quotePath } from "./path.ts";
import { refuseSecret } from "./policy.ts";
import { bookDirectory, writeBooked } from "./quota.ts";

/** A regular file, open for reading; its holder closes its handle. */
export interface OpenFile {
  readonly handle: FileHandle;
  readonly stat: Stats;
}

const OPEN_DRAFT = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
const NEW_FILE_MODE = 0o600;

/**
 * Opens the file at a place for reading. `path` is the spelling used in failures.
 *
 * @throws {ToolFailure} if there is none, or it is not a regular file.
 */
export async function openFile({ directory, name, stat }: FileLocation, path: string): Promise<OpenFile> {
  if (stat === undefined) throw new ToolFailure(`${quotePath(path)} does not exist.`, "not_found");
  requireRegular(stat, path);
  return openNamed(directory, name, path);
}

/** Opens an entry of an open directory for reading; see {@link openFile}. */
export async function openNamed(directory: Directory, name: string, path: string): Promise<OpenFile> {
  let handle: FileHandle | undefined;
  try {
    refuseSecret([...directory.segments, name], path);
    handle = await openFileIn(directory, name);
    const stat = await handle.stat();
    requireRegular(stat, path);
    if (stat.dev !== directory.device) throw otherDevice(path);
    if (directory.area.kind === "workspace") await requireSingleName(directory, name, stat, path);
    return { handle, stat };
  } catch (error) {
    await handle?.close();
    throw plainFailure(error, path);
  }
}

/** Refuses a file with another name, which may be anywhere, and one whose name now belongs to another file. */
export async function requireSingleName(
  directory: Directory,
  name: string,
  opened: Stats,
  path: string,
): Promise<void> {
  const named = await nameOf(directory, name, opened);
  if (named === "other") throw new ToolFailure(`${quotePath(path)} changed while it was opened; try again.`);
  if (named === "several") {
    throw new ToolFailure(`${quotePath(path)} has a second hard link and is not opened; use a copy of it.`);
  }
}

/** Refuses everything but a regular file; the error says what kind of entry it is. */
function requireRegular(stat: Stats, path: string): void {
  if (stat.isFile()) return;
  const kind = stat.isDirectory() ? "a directory, not a file" : "not a regular file";
  throw new ToolFailure(`${quotePath(path)} is ${kind}.`);
}

/** Reads at most `limitBytes` from the start. */
export async function readHead({ handle }: OpenFile, limitBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let position = 0;
  while (position < limitBytes) {
    const chunk = Buffer.allocUnsafe(Math.min(64 * 1024, limitBytes - position));
    const { bytesRead } = await handle.read(chunk, 0, chunk.length, position);
    if (bytesRead === 0) break;
    chunks.push(chunk.subarray(0, bytesRead));
    position += bytesRead;
  }
  return Buffer.concat(chunks);
}

/** Options of a replacement. `unchangedSince`: refuses if the file is no longer the one that was read. */
export interface ReplaceOptions {
  readonly path: string;
  readonly signal: AbortSignal;
  readonly unchangedSince?: Stats;
}

/**
 * Writes `bytes` at a place; keeps the mode of an existing file, in an opened directory also its owner (new files: mode 0600, the directory's owner).
 *
 * @throws {ToolFailure} if the existing entry is no regular file, or the system rejects an operation.
 */
export async function replaceFile(
  location: FileLocation,
  bytes: Buffer,
  options: ReplaceOptions,
): Promise<void> {
  const { directory, name, stat } = location;
  if (stat !== undefined) requireRegular(stat, options.path);
  const draft = pathIn(directory, `${DRAFT_PREFIX}${randomUUID()}`);
  let handle: FileHandle | undefined;
  try {
    handle = await open(draft, OPEN_DRAFT, NEW_FILE_MODE);
    await giveToOwner(handle, directory, stat);
    if (stat !== undefined) await handle.chmod(stat.mode & 0o777);
    await handle.writeFile(bytes);
    await handle.datasync();
    await handle.close();
    if (options.unchangedSince !== undefined)
      await requireSame(location, options.unchangedSince, options.path);
    if (options.signal.aborted) throw new ToolFailure("Cancelled before the file was written.");
    await rename(draft, pathIn(directory, name));
  } catch (error) {
    // Closing twice is harmless; after the rename there is no draft.
    await handle?.close();
    await unlink(draft).catch(() => undefined);
    throw plainFailure(error, options.path);
  }
}

async function requireSame({ directory, name }: FileLocation, read: Stats, path: string): Promise<void> {
  const now = await lstat(pathIn(directory, name));
  if (
    now.ino !== read.ino ||
    now.dev !== read.dev ||
    now.mtimeMs !== read.mtimeMs ||
    now.size !== read.size
  ) {
    throw new ToolFailure(`${quotePath(path)} was changed by someone else meanwhile; read it again.`);
  }
}

/**
 * Creates or replaces the file at `path` and the directories it needs, after all earlier writes.
 *
 * @throws {ToolFailure} if the path leads outside, the workspace is full, the system refuses, or `signal` is aborted.
 */
export function writeWhole(
  workspace: Workspace,
  path: string,
  bytes: Buffer,
  signal: AbortSignal,
): Promise<void> {
  return workspace.exclusive(async () => {
    if (signal.aborted) throw new ToolFailure("Cancelled before the file was written.");
    const location = await openLocation(workspace, path, {
      create: (above) => bookDirectory(workspace, above),
    });
    try {
      await writeBooked(workspace, location, bytes.length, () =>
        replaceFile(location, bytes, { path, signal }),
      );
    } finally {
      await location.directory.handle.close();
    }
  });
}
