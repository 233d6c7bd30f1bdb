/**
 * Temporary directories of one command besides its workspace: the proxy's socket, an OCI bundle, the workspace of a test.
 * The next worker that starts here removes those of a killed worker.
 *
 * 1. Removes only directories of this user with our prefix that are older than any command can be.
 */
import { lstat, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock } from "../../../shared/clock.ts";
import { codeOf, ToolFailure } from "../../../shared/errors.ts";

const PREFIX = /^subagent-(?:bash|net|runsc)-[A-Za-z0-9]{6}$/;
/** Age of a directory that counts as left behind: several times the longest command. */
const LEFT_BEHIND_MS = 3_600_000;

/**
 * Creates a directory that only its owner may access; the caller removes it after its command.
 *
 * @throws {ToolFailure} if the directory for temporary files cannot be written.
 */
export async function makeDirectory(purpose: "bash" | "net" | "runsc"): Promise<string> {
  try {
    return await mkdtemp(join(tmpdir(), `subagent-${purpose}-`));
  } catch (error) {
    const sentence = `no directory can be made in ${tmpdir()} (${codeOf(error)}): name one that can be written in TMPDIR`;
    throw new ToolFailure(sentence);
  }
}

/** Removes directories of dead workers from `base`. Never rejects; a directory that cannot be removed stays. */
export async function removeLeftBehind(clock: Clock, base = tmpdir()): Promise<void> {
  const names = await readdir(base).catch(() => []);
  for (const name of names.filter((each) => PREFIX.test(each))) {
    const path = join(base, name);
    try {
      const found = await lstat(path);
      const isOurs = found.isDirectory() && found.uid === process.getuid?.();
      if (isOurs && clock.now() - found.mtimeMs > LEFT_BEHIND_MS) await rm(path, { recursive: true });
    } catch {
      // Another worker was first, or this user may not remove it.
    }
  }
}
