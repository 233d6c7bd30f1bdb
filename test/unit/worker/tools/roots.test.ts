import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { parseRoots } from "../../../../src/worker/tools/roots.ts";
import { closeAtEnd } from "../../../helpers/cleanup.ts";

let base: string;
beforeAll(async () => {
  base = await realpath(await mkdtemp(join(tmpdir(), "roots-")));
  closeAtEnd(() => rm(base, { recursive: true, force: true }));
  await mkdir(join(base, "repo"));
  await mkdir(join(base, "a:b"));
  await writeFile(join(base, "file"), "");
  await symlink(join(base, "repo"), join(base, "current"));
  await symlink("/", join(base, "everything"));
});

describe("parseRoots", () => {
  it("reads paths and modes; read-only is the default", () => {
    expect(parseRoots(` ${base}/repo , ${base}/a:b:rw,`)).toEqual({
      roots: [
        { path: `${base}/repo`, realPath: `${base}/repo`, mode: "ro" },
        { path: `${base}/a:b`, realPath: `${base}/a:b`, mode: "rw" },
      ],
    });
    expect(parseRoots("")).toEqual({ roots: [] });
  });

  it("keeps the operator's spelling beside the real directory, and counts one directory once", () => {
    expect(parseRoots(`${base}/current/:ro,${base}/repo:ro`)).toEqual({
      roots: [{ path: `${base}/current`, realPath: `${base}/repo`, mode: "ro" }],
    });
  });

  it("names the item and the expected form when something is wrong", () => {
    const wrong = [
      "repo",
      "./repo:ro",
      ":ro",
      "/:ro",
      "/proc",
      "/proc/self/root:rw",
      "/dev/shm",
      "/etc",
      "/etc/ssl:ro",
      "/usr/lib:ro",
      "/usr/bin",
      "/bin",
      "/boot",
      "/home",
      "/tmp",
      "/var",
      "/var/run:rw",
      homedir(),
      `${base}/everything:ro`,
      `${base}/file:ro`,
      `${base}/missing:ro`,
      `${base}/repo:w`,
      `${base}/repo:ro,${base}/current:rw`,
      "/a\0b",
    ];
    for (const text of wrong) {
      const parsed = parseRoots(text);
      expect(parsed, text).toHaveProperty("problem");
      expect("problem" in parsed && parsed.problem).toMatch(/^SUBAGENT_ROOTS must look like/);
    }
  });
});
