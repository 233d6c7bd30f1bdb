/**
 * What an agent left in its workspace, as its parent reads it and its worker reports it: both see the same files.
 *
 * Owns nothing on the disk: it only reads. The workers' file tools write.
 *
 * 1. No symbolic link is ever followed below the root: each component is opened with O_NOFOLLOW in a directory that is
 *    already open, so a link that is swapped in meanwhile changes nothing. (Without /proc/self/fd it goes by path.)
 * 2. Only regular files with a single name are shown or read: what else an agent may have made there is left out.
 * 3. A workspace whose stamp names another agent is as if it were not there.
 */
import { constants } from "node:fs";
import { type FileHandle, open, opendir } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, SubagentError } from "./errors.ts";
import { agentSegments, DRAFT_PREFIX, FILES_NAME, STAMP_NAME, WorkspaceStamp } from "./protocol/ids.ts";
import type { AgentAddress } from "./protocol/keys.ts";
import { quoted } from "./protocol/text.ts";

/** One file. `path` is relative to the workspace, with `/` between its components; `modified_at` is ISO 8601. */
export interface WorkspaceFile {
  path: string;
  size_bytes: number;
  modified_at: string;
}

/** Whose workspace, and below which host directory. */
export interface WorkspaceAddress {
  root: string;
  address: AgentAddress;
  agentId: string;
}

/** An open directory, and where it was found. */
interface Directory {
  readonly handle: FileHandle;
  readonly path: string;
}

const MAX_FILES = 10_000;
const MAX_ENTRIES = 50_000;
const MAX_DEPTH = 40;
const MAX_FILE_BYTES = 64 * 1024 * 1024;
const MAX_STAMP_BYTES = 4_096;
const SHOWN_CHARS = 200;
/** How a directory below another is opened: never through a link. */
export const OPEN_DIRECTORY =
  constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
const OPEN_FILE = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_NOCTTY;
/** What says that nothing of the wanted kind stands there, or does not any more. */
const ABSENT = new Set(["ENOENT", "ENOTDIR", "ELOOP", "EISDIR", "ENXIO", "ENAMETOOLONG"]);

/** The regular files of a workspace, sorted by path, at most `most` (10,000). Empty where there is none. */
export async function listFiles(workspace: WorkspaceAddress, most = MAX_FILES): Promise<WorkspaceFile[]> {
  const home = await openHome(workspace);
  if (!home) return [];
  const files: WorkspaceFile[] = [];
  await gather(home, "", { files, most, entriesLeft: MAX_ENTRIES });
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** The content of a file. Rejects with `unknown_file`, or `invalid_input` for one of more than 64 MiB. */
export async function readWorkspaceFile(workspace: WorkspaceAddress, path: string): Promise<Buffer> {
  const segments = segmentsOf(path);
  const name = segments.pop();
  if (name === undefined) throw unknownFile(path);
  const home = await openHome(workspace);
  const directory = home && (await descend(home, segments));
  if (!directory) throw unknownFile(path);
  const file = await openRegular(directory, name).finally(() => directory.handle.close());
  if (!file) throw unknownFile(path);
  try {
    if (file.size <= MAX_FILE_BYTES) return await readAll(file.handle, file.size);
  } finally {
    await file.handle.close();
  }
  throw new SubagentError(
    "invalid_input",
    `${quoted(path, SHOWN_CHARS)} has ${file.size} bytes, more than the ${MAX_FILE_BYTES} that can be read at once.`,
  );
}

function segmentsOf(path: unknown): string[] {
  if (typeof path !== "string" || path.startsWith("/") || path.includes("\0")) throw unknownFile(path);
  const segments = path.split("/").filter((segment) => segment !== "" && segment !== ".");
  if (segments.includes("..")) throw unknownFile(path);
  return segments;
}

function unknownFile(path: unknown): SubagentError {
  return new SubagentError(
    "unknown_file",
    `There is no file ${quoted(String(path), SHOWN_CHARS)} in this workspace: use a path as files() lists it.`,
  );
}

/** The open workspace; undefined where there is none, or one of another agent. */
async function openHome({ root, address, agentId }: WorkspaceAddress): Promise<Directory | undefined> {
  const top = await orAbsent(open(root, constants.O_RDONLY | constants.O_DIRECTORY));
  const agent = top && (await descend({ handle: top, path: root }, agentSegments(address, agentId)));
  if (!agent) return undefined;
  if ((await stampedUid(agent)) === address.uid) return descend(agent, [FILES_NAME]);
  await agent.handle.close();
  return undefined;
}

async function stampedUid(agent: Directory): Promise<string | undefined> {
  const file = await openRegular(agent, STAMP_NAME);
  if (!file) return undefined;
  try {
    const text = await readAll(file.handle, Math.min(file.size, MAX_STAMP_BYTES));
    return WorkspaceStamp.parse(JSON.parse(text.toString())).uid;
  } catch {
    return undefined;
  } finally {
    await file.handle.close();
  }
}

/** Walks down from a directory, which it closes, also when a component is not there (undefined). */
async function descend(from: Directory, segments: readonly string[]): Promise<Directory | undefined> {
  let directory: Directory | undefined = from;
  for (const name of segments) {
    if (!directory) return undefined;
    const above: Directory = directory;
    try {
      directory = await openBelow(above, name);
    } finally {
      await above.handle.close();
    }
  }
  return directory;
}

/** Gathers the files below a directory, which it closes. */
async function gather(
  directory: Directory,
  prefix: string,
  found: { files: WorkspaceFile[]; most: number; entriesLeft: number },
  depth = MAX_DEPTH,
): Promise<void> {
  try {
    for await (const entry of await opendir(pathIn(directory, "."))) {
      if (found.files.length >= found.most || found.entriesLeft-- <= 0) return;
      const path = `${prefix}${entry.name}`;
      if (entry.isDirectory() && depth > 1) {
        const below = await openBelow(directory, entry.name);
        if (below) await gather(below, `${path}/`, found, depth - 1);
      } else if (entry.isFile() && !entry.name.startsWith(DRAFT_PREFIX)) {
        const file = await openRegular(directory, entry.name);
        await file?.handle.close();
        if (file) found.files.push({ path, size_bytes: file.size, modified_at: file.modifiedAt });
      }
    }
  } finally {
    await directory.handle.close();
  }
}

async function openBelow(directory: Directory, name: string): Promise<Directory | undefined> {
  const handle = await orAbsent(open(pathIn(directory, name), OPEN_DIRECTORY));
  return handle && { handle, path: join(directory.path, name) };
}

/** An open regular file with one name; undefined for anything else. */
async function openRegular(directory: Directory, name: string) {
  const handle = await orAbsent(open(pathIn(directory, name), OPEN_FILE));
  if (!handle) return undefined;
  const stat = await handle.stat();
  if (stat.isFile() && stat.nlink === 1) {
    return { handle, size: stat.size, modifiedAt: stat.mtime.toISOString() };
  }
  await handle.close();
  return undefined;
}

/** Reads `size` bytes, fewer when the file has become shorter. */
async function readAll(handle: FileHandle, size: number): Promise<Buffer> {
  const bytes = Buffer.alloc(size);
  let read = 0;
  while (read < size) {
    const { bytesRead } = await handle.read(bytes, read, size - read, read);
    if (bytesRead === 0) break;
    read += bytesRead;
  }
  return bytes.subarray(0, read);
}

/** A path by which the system reaches `name` in the open directory itself, wherever that has been moved. */
export function pathIn({ handle, path }: Directory, name: string): string {
  return process.platform === "linux" ? `/proc/self/fd/${handle.fd}/${name}` : join(path, name);
}

async function orAbsent<T>(opening: Promise<T>): Promise<T | undefined> {
  try {
    return await opening;
  } catch (error) {
    if (error instanceof Error && "code" in error && ABSENT.has(String(error.code))) return undefined;
    const why = messageOf(error).split(",")[0];
    const sentence = `The workspaces cannot be read (${why}): give this process the rights of the workers.`;
    throw new SubagentError("invalid_config", sentence, {}, error);
  }
}
