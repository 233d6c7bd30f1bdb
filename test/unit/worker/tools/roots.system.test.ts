/** Guarantee: no directory of the system is a root, whichever it is, nor a file system of the kernel, wherever it is mounted. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { parseRoots } from "../../../../src/worker/tools/roots.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";

/** What the system says of the file system of a directory; undefined: the truth. */
const fileSystem = vi.hoisted(() => ({ type: undefined as number | undefined }));
vi.mock("node:fs", async (original) => {
  const real = await original<typeof import("node:fs")>();
  const statfsSync = (path: string) => ({
    ...real.statfsSync(path),
    ...(fileSystem.type !== undefined && { type: fileSystem.type }),
  });
  return { ...real, statfsSync };
});
afterEach(() => {
  fileSystem.type = undefined;
});

/** Magic numbers, as linux/magic.h has them. */
const KERNEL = {
  proc: 0x9fa0,
  sysfs: 0x62656572,
  devpts: 0x1cd1,
  debugfs: 0x64626720,
  tracefs: 0x74726163,
  securityfs: 0x73636673,
  configfs: 0x62656570,
  bpf: 0xcafe4a11,
  cgroup: 0x27e0eb,
  cgroup2: 0x63677270,
  efivarfs: 0xde5e81e4,
  mqueue: 0x19800202,
  binfmt_misc: 0x42494e4d,
  nsfs: 0x6e736673,
  pstore: 0x6165676c,
};

it.each(Object.entries(KERNEL))("a directory on %s is no root", (_name, type) => {
  const directory = mkdtempSync(join(tmpdir(), "roots-"));
  closeAtEnd(() => rmSync(directory, { recursive: true }));
  expect(parseRoots(`${directory}:ro`)).not.toHaveProperty("problem");
  fileSystem.type = type;
  expect(parseRoots(`${directory}:ro`)).toMatchObject({ problem: expect.stringContaining("the kernel") });
});

const SYSTEM = [
  ...["/etc", "/proc/self", "/sys", "/dev", "/run", "/boot", "/bin", "/sbin", "/lib", "/lib64"],
  ...["/usr/bin", "/usr/sbin", "/usr/lib", "/usr/local/bin", "/usr/local/sbin", "/usr/local/lib"],
  ...["/var/run", "/var/lock", "/var/spool", "/var/lib/docker", "/System", "/Library"],
].filter((path) => existsSync(path));

it.each(SYSTEM)("%s is no root", (path) => {
  expect(parseRoots(`${path}:ro`)).toMatchObject({ problem: expect.stringContaining("may not be opened") });
});
