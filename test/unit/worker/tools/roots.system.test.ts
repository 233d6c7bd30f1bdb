/** Guarantee: no directory of the system is a root, whichever it is. */
import { existsSync } from "node:fs";
import { expect, it } from "vitest";
import { parseRoots } from "../../../../src/worker/tools/roots.ts";

const SYSTEM = [
  ...["/etc", "/proc/self", "/sys", "/dev", "/run", "/boot", "/bin", "/sbin", "/lib", "/lib64"],
  ...["/usr/bin", "/usr/sbin", "/usr/lib", "/usr/local/bin", "/usr/local/sbin", "/usr/local/lib"],
  ...["/var/run", "/var/lock", "/var/spool", "/var/lib/docker", "/System", "/Library"],
].filter((path) => existsSync(path));

it.each(SYSTEM)("%s is no root", (path) => {
  expect(parseRoots(`${path}:ro`)).toMatchObject({ problem: expect.stringContaining("may not be opened") });
});
