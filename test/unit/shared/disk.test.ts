import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { isDiskFull, saysDiskFull } from "../../../src/shared/disk.ts";
import { SubagentError } from "../../../src/shared/errors.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";

async function directory() {
  const path = await mkdtemp(join(tmpdir(), "disk-"));
  closeAtEnd(() => rm(path, { recursive: true }));
  return path;
}

/** Asks about a small file system, in a mount namespace of its own, after `filling` ran in it. */
async function askOnSmallDisk(size: string, filling: string) {
  const alone = process.getuid?.() === 0 ? ["--mount"] : ["--mount", "--user", "--map-root-user"];
  const small = `mount -t tmpfs -o ${size} tmpfs "$1" && cd "$1" && { ${filling}; }; cd "$2" && shift 2 && exec "$@"`;
  const code = `
    import { isDiskFull } from "./src/shared/disk.ts";
    console.log(await isDiskFull(process.argv[1]));
  `;
  const path = await directory();
  const node = [process.execPath, "--import", "tsx", "--input-type=module", "--eval", code, path];
  const command = [...alone, "sh", "-c", small, "sh", path, process.cwd(), ...node];
  return (await promisify(execFile)("unshare", command)).stdout.trim();
}

test("a disk is full when its last block or its last inode is taken, not before", async () => {
  const seen = await Promise.all([
    askOnSmallDisk("size=64k", "head -c 32k /dev/zero >a"),
    askOnSmallDisk("size=64k", "head -c 1M /dev/zero >a"),
    askOnSmallDisk("size=64k,nr_inodes=3", "touch a b c d"),
  ]);
  expect(seen).toEqual(["false", "true", "true"]);
});

test("a disk with room is not full, nor one whose figures cannot be had", async () => {
  const path = await directory();
  expect(await isDiskFull(path)).toBe(false);
  expect(await isDiskFull(join(path, "nothing"))).toBe(false);
});

const errno = (code: string) => Object.assign(new Error(`${code}: write`), { code });

test.each([
  { error: errno("ENOSPC"), isFull: true },
  { error: errno("EDQUOT"), isFull: true },
  { error: new SubagentError("setup_failed", "It cannot be opened.", {}, errno("ENOSPC")), isFull: true },
  { error: new SubagentError("setup_failed", "It cannot be opened.", {}, errno("EACCES")), isFull: false },
  { error: new Error("no code"), isFull: false },
  { error: "ENOSPC", isFull: false },
])("$error says that a disk is full: $isFull", ({ error, isFull }) => {
  expect(saysDiskFull(error)).toBe(isFull);
});
