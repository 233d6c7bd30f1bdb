/** Finds out if a disk is full: from its figures, or from the error of a call. */
import { statfs } from "node:fs/promises";

const FULL: ReadonlySet<unknown> = new Set(["ENOSPC", "EDQUOT"]);

/**
 * Returns true if the disk of `directory` has no block or no inode left for this process; false if the system does not say.
 * Quotas are not seen.
 */
export async function isDiskFull(directory: string): Promise<boolean> {
  const found = await statfs(directory).catch(() => undefined);
  if (!found) return false;
  // The last blocks are root's. A disk that makes inodes as it needs them reports none.
  const blocks = process.getuid?.() === 0 ? found.bfree : found.bavail;
  return blocks === 0 || (found.files > 0 && found.ffree === 0);
}

/** Returns true if the error or one of its causes is a disk, or a disk quota, that is used up. */
export function saysDiskFull(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ("code" in error && FULL.has(error.code)) || saysDiskFull(error.cause);
}
