/**
 * Lists directories that an agent filled, also while its command still changes them: their names may be any bytes, their modes may
 * keep their owner out, and what was a directory may be a link by the time it is entered.
 *
 * Nothing outside is listed or changed. A directory is reached without following a link in its last component; then the system
 * says where that descriptor leads, and where a link further up led it elsewhere it is let go. Everything after that goes
 * through the descriptor. (Where the system has no /proc/self/fd, by path: there a swap is not caught.)
 */
import { constants } from "node:fs";
import { chmod, type FileHandle, open, opendir, readlink, realpath } from "node:fs/promises";

const SLASH = Buffer.from("/");
/** Read, write and enter, for the owner. */
const OPEN_MODE = 0o700;

const IS_LINUX = process.platform === "linux";
/** Linux: the descriptor says what is meant and reads nothing, so that no mode keeps anybody out. Node has no name for it. */
const O_PATH = 0o10000000;
const REACH = constants.O_DIRECTORY | constants.O_NOFOLLOW | (IS_LINUX ? O_PATH : constants.O_NONBLOCK);

/** One entry of a directory. */
export interface Listed {
  /** Its host path. */
  readonly path: Buffer;
  /** Reaches the entry itself, whatever becomes of its path, until the next one is asked for. */
  readonly at: Buffer;
  readonly isDirectory: boolean;
}

/** Where a walk of `directory` begins: its path without links, or nothing where there is none. */
export async function startOf(directory: string): Promise<Buffer[]> {
  try {
    return [await realpath(directory, { encoding: "buffer" })];
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}

/**
 * The entries of a directory, one by one; none where no directory stands at this path any more, which must be one without links.
 * A directory of this user's that this user may not read is opened for it first.
 */
export async function* listDirectory(directory: Buffer): AsyncGenerator<Listed> {
  const handle = await reach(directory);
  if (handle === undefined) return;
  try {
    const here = IS_LINUX ? Buffer.from(`/proc/self/fd/${handle.fd}`) : directory;
    if (IS_LINUX && !(await readlink(here, { encoding: "buffer" })).equals(directory)) return;
    for await (const entry of await openOwn(here)) {
      // Latin-1 spells each byte as one character: nothing of a name is lost.
      const name = Buffer.from(entry.name, "latin1");
      const [path, at] = [Buffer.concat([directory, SLASH, name]), Buffer.concat([here, SLASH, name])];
      yield { path, at, isDirectory: entry.isDirectory() };
    }
  } finally {
    await handle.close();
  }
}

/** What is no directory any more, but a file or a link, is gone as well. */
const GONE: ReadonlySet<string | undefined> = new Set(["ENOENT", "ENOTDIR", "ELOOP"]);

async function reach(directory: Buffer): Promise<FileHandle | undefined> {
  try {
    return await open(directory, REACH);
  } catch (error) {
    if (GONE.has(codeOf(error))) return undefined;
    throw error;
  }
}

/** `here` leads to the open directory itself: no link stands there. */
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

/** The system's word for what went wrong; undefined where there is none. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}
