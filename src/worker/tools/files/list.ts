/**
 * Lists directories that an agent filled, even while its command still changes them. Names may be any bytes, modes may lock
 * out their owner, and a former directory may be a link when it is entered.
 *
 * Nothing outside is listed or changed. A directory is opened without following a link in its last component. Then the
 * system reports the descriptor's path; if a link further up led elsewhere, the descriptor is closed. All further access
 * uses the descriptor. (On systems without /proc/self/fd, the path: there a swap is not detected.)
 */
import { constants } from "node:fs";
import { chmod, type FileHandle, open, opendir, readlink, realpath } from "node:fs/promises";
import { codeOf } from "../../../shared/errors.ts";

const SLASH = Buffer.from("/");
/** Read, write and enter, for the owner. */
const OPEN_MODE = 0o700;

const IS_LINUX = process.platform === "linux";
/** Linux: a descriptor that only names a file and reads nothing, so that no mode blocks it. Node has no name for it. */
const O_PATH = 0o10000000;
const REACH = constants.O_DIRECTORY | constants.O_NOFOLLOW | (IS_LINUX ? O_PATH : constants.O_NONBLOCK);

/** One entry of a directory. */
export interface Listed {
  /** Host path of the entry. */
  readonly path: Buffer;
  /** Reaches the entry itself, whatever happens to its path, until the next entry is requested. */
  readonly at: Buffer;
  readonly isDirectory: boolean;
}

/** Returns the start of a walk of `directory`: its path without links; empty if it does not exist. */
export async function startOf(directory: string): Promise<Buffer[]> {
  try {
    return [await realpath(directory, { encoding: "buffer" })];
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}

/**
 * Yields the entries of a directory, given by a path without links; none if no directory is at this path any more. If this
 * user owns the directory but may not read it, first makes it readable.
 */
export async function* listDirectory(directory: Buffer): AsyncGenerator<Listed> {
  const handle = await reach(directory);
  if (handle === undefined) return;
  try {
    const here = IS_LINUX ? Buffer.from(`/proc/self/fd/${handle.fd}`) : directory;
    if (IS_LINUX && !(await readlink(here, { encoding: "buffer" })).equals(directory)) return;
    for await (const entry of await openOwn(here)) {
      // Latin-1 maps each byte to one character, so no byte of a name is lost.
      const name = Buffer.from(entry.name, "latin1");
      const [path, at] = [Buffer.concat([directory, SLASH, name]), Buffer.concat([here, SLASH, name])];
      yield { path, at, isDirectory: entry.isDirectory() };
    }
  } finally {
    await handle.close();
  }
}

/** A directory that has become a file or a link counts as gone. */
const GONE: ReadonlySet<string | undefined> = new Set(["ENOENT", "ENOTDIR", "ELOOP"]);

async function reach(directory: Buffer): Promise<FileHandle | undefined> {
  try {
    return await open(directory, REACH);
  } catch (error) {
    if (GONE.has(codeOf(error))) return undefined;
    throw error;
  }
}

/** Lists `here`, which leads to the open directory itself: no link is possible there. */
async function openOwn(here: Buffer) {
  const list = () => opendir(here, { encoding: "latin1", bufferSize: 256 });
  try {
    return await list();
  } catch (error) {
    if (codeOf(error) !== "EACCES") throw error;
    await chmod(here, OPEN_MODE);
    return list();
  }
}
