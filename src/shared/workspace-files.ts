/**
 * Files that an agent left in its workspace. Its parent reads them and its worker reports them: both see the same files.
 *
 * Owns nothing on the disk, and only reads: the workers' file tools write.
 *
 * 1. No symbolic link below the root is followed: each component is opened by descriptor (`open-directory.ts`).
 * 2. Only regular files with a single name that may be opened are listed or read. Anything else is left out.
 * 3. A workspace whose stamp names another agent counts as absent.
 */
import type { FileHandle } from "node:fs/promises";
import { join, relative } from "node:path";
import { SubagentError } from "./errors.ts";
import {
  createWalkBudget,
  descend,
  type Listing,
  type OpenDirectory,
  openBelow,
  openRegular,
  openRoot,
  refusedOpening,
  UNLISTED,
  walkTree,
} from "./open-directory.ts";
import { agentSegments, FILES_NAME, STAMP_NAME, WorkspaceStamp } from "./protocol/ids.ts";
import type { AgentAddress } from "./protocol/keys.ts";
import { quoted } from "./protocol/text.ts";

/** One file. `path` is relative to the workspace, with `/` between its components; `modified_at` is ISO 8601. */
export interface WorkspaceFile {
  path: string;
  size_bytes: number;
  modified_at: string;
}

/** Location of an agent's workspace; `root`: host directory of all workspaces. */
export interface WorkspaceAddress {
  root: string;
  address: AgentAddress;
  agentId: string;
}

const MAX_FILES = 10_000;
const MAX_FILE_BYTES = 64 * 1024 * 1024;
const MAX_STAMP_BYTES = 4_096;
const PIECE_BYTES = 65_536;
const SHOWN_CHARS = 200;

/** Options of a list: the maximum of files, default 10,000, and a signal at whose abort the list ends where it is. */
interface ListOptions {
  most?: number;
  signal?: AbortSignal | undefined;
}

/**
 * Lists the regular files of a workspace, sorted by path. Empty if there is no workspace. Rejects with `rate_limited` if too many
 * files are open.
 */
export async function listFiles(
  workspace: WorkspaceAddress,
  { most = MAX_FILES, signal }: ListOptions = {},
): Promise<WorkspaceFile[]> {
  const home = await openHome(workspace);
  if (!home) return [];
  const files: WorkspaceFile[] = [];
  const everything = async (_: OpenDirectory, listing: Listing) => ({ ...listing, rules: undefined });
  const openUnlocked = (directory: OpenDirectory, name: string) => openBelow(directory, name, UNLISTED);
  const walk = {
    ...{ budget: createWalkBudget(), openBelow: openUnlocked, choose: everything },
    ...(signal && { signal }),
  };
  try {
    for await (const { directory, names } of walkTree(home, walk, undefined)) {
      for (const name of names) {
        if (files.length >= most || signal?.aborted) return sorted(files);
        const file = await openRegular(directory, name, UNLISTED);
        await file?.handle.close();
        const path = relative(home.path, join(directory.path, name));
        if (file) files.push({ path, size_bytes: file.size, modified_at: file.modifiedAt });
      }
    }
  } catch (error) {
    throw refusedOpening(error);
  }
  return sorted(files);
}

const sorted = (files: WorkspaceFile[]) => files.sort((a, b) => (a.path < b.path ? -1 : 1));

/** An open file of a workspace, and its size in bytes when it was opened. The holder closes the handle. */
export interface OpenWorkspaceFile {
  readonly handle: FileHandle;
  readonly size: number;
}

/** Returns the content of a file. Rejects as {@link openWorkspaceFile} does. */
export async function readWorkspaceFile(workspace: WorkspaceAddress, path: string): Promise<Buffer> {
  const { handle, size } = await openWorkspaceFile(workspace, path);
  try {
    return await readAll(handle, size);
  } finally {
    await handle.close();
  }
}

/** Opens a file. Rejects with `unknown_file`, or with `invalid_input` if it has more than 64 MiB. */
export async function openWorkspaceFile(
  workspace: WorkspaceAddress,
  path: string,
): Promise<OpenWorkspaceFile> {
  const segments = segmentsOf(path);
  const name = segments.pop();
  if (name === undefined) throw unknownFile(path);
  const home = await openHome(workspace);
  const directory = home && (await descend(home, segments));
  if (!directory) throw unknownFile(path);
  const file = await openRegular(directory, name).finally(() => directory.handle.close());
  if (!file) throw unknownFile(path);
  if (file.size <= MAX_FILE_BYTES) return file;
  await file.handle.close();
  throw new SubagentError(
    "invalid_input",
    `${quoted(path, SHOWN_CHARS)} has ${file.size} bytes, more than the ${MAX_FILE_BYTES} that can be read at once.`,
  );
}

/** Yields the bytes of an open file in pieces, up to its size when it was opened. Throws `conflict` if it has become shorter. */
export async function* piecesOf({ handle, size }: OpenWorkspaceFile): AsyncGenerator<Buffer> {
  for (let at = 0; at < size; ) {
    const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, size - at));
    const { bytesRead } = await handle.read(piece, 0, piece.length, at);
    if (bytesRead === 0)
      throw new SubagentError("conflict", "The file became shorter while it was read: read it again.");
    at += bytesRead;
    yield piece.subarray(0, bytesRead);
  }
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

/** Opens the workspace; returns undefined if there is none, or if it belongs to another agent. */
async function openHome({ root, address, agentId }: WorkspaceAddress): Promise<OpenDirectory | undefined> {
  const top = await openRoot(root);
  const agent = top && (await descend(top, agentSegments(address, agentId)));
  if (!agent) return undefined;
  try {
    return (await stampedUid(agent)) === address.uid ? await openBelow(agent, FILES_NAME) : undefined;
  } finally {
    await agent.handle.close();
  }
}

async function stampedUid(agent: OpenDirectory): Promise<string | undefined> {
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

/** Reads `size` bytes, or fewer if the file has become shorter. */
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
