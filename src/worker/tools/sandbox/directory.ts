/**
 * Directories of one command's own beside its workspace: the proxy's socket, an OCI bundle, the workspace of a proof. What
 * a worker that was killed left of them is removed by the next one that starts here.
 *
 * 1. Only directories of this user's with our prefix go, and only such as are older than any command can be.
 */
import { lstat, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock } from "../../../shared/clock.ts";

const PREFIX = /^subagent-(?:bash|net|runsc)-[A-Za-z0-9]{6}$/;
/** Several times what a command may take. */
const LEFT_BEHIND_MS = 3_600_000;

/** Makes one, for its owner alone; the caller removes it with its command. */
export function makeDirectory(purpose: "bash" | "net" | "runsc"): Promise<string> {
  return mkdtemp(join(tmpdir(), `subagent-${purpose}-`));
}

/** Removes what workers that are gone left in `base`. Never rejects: what cannot be removed stays. */
export async function removeLeftBehind(clock: Clock, base = tmpdir()): Promise<void> {
  const names = await readdir(base).catch(() => []);
  for (const name of names.filter((each) => PREFIX.test(each))) {
    const path = join(base, name);
    try {
      const found = await lstat(path);
      const isOurs = found.isDirectory() && found.uid === process.getuid?.();
      if (isOurs && clock.now() - found.mtimeMs > LEFT_BEHIND_MS) await rm(path, { recursive: true });
    } catch {
      // Another worker was first, or it is not ours to remove.
    }
  }
}
