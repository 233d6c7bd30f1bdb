/**
 * Turns a path the model wrote into an open directory and a name in it, never outside the workspace and open roots.
 *
 * Owns walking down, following links, making directories on the way. `path.ts` finds the area of a path; `file.ts` opens and
 * replaces the file behind a place; `walk.ts` lists trees.
 *
 * 1. The kernel never follows a symbolic link: each component is opened separately with O_NOFOLLOW below an open directory.
 *    Swapping a component for a link at any moment changes nothing.
 * 2. A link is followed by reading it and starting again from the area of its target; other targets are refused.
 * 3. The opened directory stays in use: files are reached through its descriptor, not by path. (On systems without
 *    /proc/self/fd, by path: there a swap between two components is not detected.)
 * 4. Another file system mounted below an area (a procfs or a disk) is never entered.
 * 5. No failure names a host path; the model reads its own spelling back.
 */
import type { Stats } from "node:fs";
import { type FileHandle, lstat, mkdir, readlink } from "node:fs/promises";
import { join, resolve } from "node:path";
import { codeOf, ToolFailure } from "../../../shared/errors.ts";
import { type OpenDirectory, openDirectoryAt, pathIn } from "../../../shared/open-directory.ts";
import type { Area, Workspace } from "../workspace.ts";
import { locate, plainFailure, quotePath, relocate, type Target } from "./path.ts";
import { refuseExecuted, refuseSecret } from "./policy.ts";

/** An open directory inside an area; its holder closes its handle. */
export interface Directory extends OpenDirectory {
  readonly area: Area;
  /** The area's file system; nothing on another one is opened. */
  readonly device: number;
  /** Components below the area, none of them a link. */
  readonly segments: readonly string[];
}

/** A name in an open directory. `stat` is the entry's own, `undefined` if there is none; never a link's. */
export interface FileLocation {
  readonly directory: Directory;
  readonly name: string;
  readonly stat: Stats | undefined;
}

const MAX_LINK_HOPS = 40;
const NEW_DIRECTORY_MODE = 0o700;

/** Called before a directory is created in another one; throws to refuse. */
export type BeforeMaking = (above: Directory) => Promise<void>;

/** Purpose of opening a place: `change` needs a writable area, `create` also makes missing directories. */
export type Intent = "read" | "change" | { readonly create: BeforeMaking };

/**
 * Opens the directory that holds `path` and reads the entry's stat; the caller closes the directory.
 *
 * @throws {ToolFailure} if the path leaves the areas, cannot be walked, or is not writable.
 */
export async function openLocation(
  workspace: Workspace,
  path: string,
  intent: Intent = "read",
): Promise<FileLocation> {
  return followLinks<FileLocation>(workspace, path, async (target) => {
    const name = target.segments.at(-1);
    if (name === undefined) throw new ToolFailure(`${quotePath(path)} is a directory, not a file.`);
    if (intent === "read") refuseSecret(target.segments, path);
    else refuseExecuted(target.segments, path);
    if (intent !== "read" && !target.area.writable) {
      throw new ToolFailure(
        `${quotePath(path)} is in a read-only directory; write into the workspace instead.`,
      );
    }
    const directory = await descend(
      { ...target, segments: target.segments.slice(0, -1) },
      typeof intent === "object" ? intent.create : undefined,
    );
    if (typeof directory === "string") return { target: relocate(workspace, join(directory, name), path) };
    try {
      const stat = await lstatOrNothing(pathIn(directory, name));
      if (!stat?.isSymbolicLink()) return { found: { directory, name, stat } };
      const linked = await readlink(pathIn(directory, name));
      await directory.handle.close();
      return { target: relocate(workspace, resolve(directory.path, linked), path) };
    } catch (error) {
      await directory.handle.close();
      throw error;
    }
  });
}

/** Opens the directory at `path`. */
export async function openDirectory(workspace: Workspace, path: string): Promise<Directory> {
  return followLinks<Directory>(workspace, path, async (target) => {
    refuseSecret(target.segments, path);
    const directory = await descend(target);
    return typeof directory === "string"
      ? { target: relocate(workspace, directory, path) }
      : { found: directory };
  });
}

/**
 * Opens the entry `name` of an open directory as a directory; does not follow a link.
 *
 * @throws {ToolFailure} if it holds secrets or is on another file system.
 */
export async function openChild(directory: Directory, name: string): Promise<Directory> {
  const { area, device } = directory;
  const segments = [...directory.segments, name];
  refuseSecret(segments, name);
  const handle = await openDirectoryAt(pathIn(directory, name));
  try {
    if ((await handle.stat()).dev !== device) throw otherDevice(name);
    return { handle, path: join(directory.path, name), area, device, segments };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Makes the failure for a path on a file system that is mounted below an area. */
export function otherDevice(path: string): ToolFailure {
  return new ToolFailure(`${quotePath(path)} is on another file system and is not opened.`);
}

/**
 * Gives a new entry to the owner of what it replaces in an opened directory, otherwise to the owner of its directory. If this
 * process is root, commands run as another user, who owns the workspace after the first command; and an opened directory is some
 * user's, who must be able to read it later. If the system refuses the change (root without that capability, a network disk), an
 * entry of an opened directory keeps its owner.
 */
export async function giveToOwner(
  made: FileHandle,
  { handle, area }: Directory,
  replaced?: Stats,
): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const kept = area.kind === "workspace" ? undefined : replaced;
  const { uid, gid } = kept ?? (await handle.stat());
  if (uid === 0 && gid === 0) return;
  await made.chown(uid, gid).catch((error: unknown) => {
    if (area.kind === "workspace") throw error;
  });
}

async function openArea(area: Area): Promise<Directory> {
  const handle = await openDirectoryAt(area.path);
  try {
    return { handle, path: area.path, area, device: (await handle.stat()).dev, segments: [] };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

type Attempt<Found> = { readonly found: Found } | { readonly target: Target };

async function followLinks<Found>(
  workspace: Workspace,
  path: string,
  attempt: (target: Target) => Promise<Attempt<Found>>,
): Promise<Found> {
  let target = locate(workspace, path);
  try {
    for (let hops = 0; hops <= MAX_LINK_HOPS; hops++) {
      const outcome = await attempt(target);
      if ("found" in outcome) return outcome.found;
      target = outcome.target;
    }
  } catch (error) {
    throw plainFailure(error, path);
  }
  throw new ToolFailure(`${quotePath(path)} goes through too many symbolic links.`);
}

/** Walks down by descriptor. Returns the open directory, or the host path to which a link on the way leads. */
async function descend({ area, segments }: Target, beforeMaking?: BeforeMaking): Promise<Directory | string> {
  let directory = await openArea(area);
  try {
    for (const [index, name] of segments.entries()) {
      const next = await openComponent(directory, name, beforeMaking);
      await directory.handle.close();
      if (typeof next === "string") return resolve(directory.path, next, ...segments.slice(index + 1));
      directory = next;
    }
    return directory;
  } catch (error) {
    await directory.handle.close();
    throw error;
  }
}

/** Opens one component, making it if asked; returns a link's text instead of following it. */
async function openComponent(
  directory: Directory,
  name: string,
  beforeMaking: BeforeMaking | undefined,
): Promise<Directory | string> {
  try {
    return await openChild(directory, name);
  } catch (error) {
    const code = codeOf(error);
    if (code === "ELOOP" || code === "ENOTDIR") {
      return readlink(pathIn(directory, name)).catch(() => Promise.reject(error));
    }
    if (code !== "ENOENT" || beforeMaking === undefined) throw error;
  }
  await beforeMaking(directory);
  await mkdir(pathIn(directory, name), { mode: NEW_DIRECTORY_MODE }).catch((error: unknown) => {
    if (codeOf(error) !== "EEXIST") throw error;
  });
  const child = await openChild(directory, name);
  try {
    await giveToOwner(child.handle, directory);
    return child;
  } catch (error) {
    await child.handle.close();
    throw error;
  }
}

async function lstatOrNothing(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
}
