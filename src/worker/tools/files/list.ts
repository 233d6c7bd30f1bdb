/** Lists directories that an agent filled: their names may be any bytes, and their modes may keep their owner out. */
import { chmod, opendir } from "node:fs/promises";

const SLASH = Buffer.from("/");
/** Read, write and enter, for the owner. */
const OPEN_MODE = 0o700;

/** One entry of a directory. */
export interface Listed {
  readonly path: Buffer;
  readonly isDirectory: boolean;
}

/** The entries of a directory, one by one. A directory of this user's that this user may not read is opened for it first. */
export async function* listDirectory(directory: Buffer): AsyncGenerator<Listed> {
  const open = () => opendir(directory, { encoding: "latin1", bufferSize: 256 });
  const opened = await open().catch(async (error: unknown) => {
    if (codeOf(error) !== "EACCES") throw error;
    await chmod(directory, OPEN_MODE);
    return open();
  });
  for await (const entry of opened) {
    // Latin-1 spells each byte as one character: nothing of a name is lost.
    const path = Buffer.concat([directory, SLASH, Buffer.from(entry.name, "latin1")]);
    yield { path, isDirectory: entry.isDirectory() };
  }
}

/** The system's word for what went wrong; undefined where there is none. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}
