import { spawnSync } from "node:child_process";
import { readdirSync, readlinkSync } from "node:fs";
import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { parseRoot, parseRoots } from "../../../../src/worker/tools/roots.ts";
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
  await symlink("/home", join(base, "home-of-all"));
  await symlink("/proc/self/root/proc/self", join(base, "environment"));
});

const WHOLE = ["--dev-bind", "/", "/"];

/** What is said of each directory where these things are mounted in `root`, by default this machine's. */
function saidWith(
  mounts: readonly string[],
  directories: readonly string[],
  root: readonly string[] = WHOLE,
): string[] {
  const roots = new URL("../../../../src/worker/tools/roots.ts", import.meta.url).href;
  const script = `import { parseRoots } from "${roots}"; for (const each of ${JSON.stringify(directories)}) console.log(JSON.stringify(parseRoots(each)));`;
  const node = [
    process.execPath,
    "--import",
    import.meta.resolve("tsx"),
    "--input-type=module",
    "-e",
    script,
  ];
  const options = { encoding: "utf8", timeout: 30_000 } as const;
  const { stdout } = spawnSync("/usr/bin/bwrap", [...root, ...mounts, "--", ...node], options);
  return stdout.trim().split("\n");
}

describe("parseRoots", () => {
  it("says of what is no text what it must look like", () => {
    for (const nothing of [5, undefined])
      expect(parseRoots(nothing as unknown as string)).toEqual({
        problem: "SUBAGENT_ROOTS must look like /srv/repo:ro,/data:rw; it is no text.",
      });
  });

  it("refuses a window on the kernel wherever it is mounted", async () => {
    const directory = join(base, "not-proc");
    await mkdir(directory);
    expect(parseRoots(directory)).toHaveProperty("roots");
    expect(saidWith(["--proc", directory], [directory])).toEqual([
      expect.stringContaining("it shows the kernel and its processes"),
    ]);
  });

  it("reads one directory by itself, a comma in its name", async () => {
    await mkdir(join(base, "one,two"));
    await symlink("/etc", join(base, "three,four"));
    expect(parseRoot(`${base}/one,two:ro`)).toMatchObject({ realPath: `${base}/one,two`, mode: "ro" });
    expect(parseRoot(`${base}/three,four:ro`)).toHaveProperty("problem");
  });

  it("refuses the home of anybody as a whole", () => {
    const home = ["--tmpfs", "/home", "--dir", "/home/ada/repo"];
    expect(saidWith(home, ["/home/ada", "/home/ada/repo"])).toEqual([
      expect.stringContaining("it holds more than one project"),
      expect.stringContaining('"roots"'),
    ]);
  });

  it("refuses the home of its own user as a whole, wherever it is and whatever leads to it", async () => {
    onTestFinished(() => void vi.unstubAllEnvs());
    const home = join(base, "service");
    await mkdir(join(home, "repo"), { recursive: true });
    await symlink(home, join(base, "home-of-service"));
    for (const spelled of [home, `${home}/`, join(base, "home-of-service")]) {
      vi.stubEnv("HOME", spelled);
      for (const directory of [home, join(base, "home-of-service")])
        expect(parseRoots(directory), `${directory} with HOME=${spelled}`).toHaveProperty("problem");
      expect(parseRoots(join(home, "repo"))).toHaveProperty("roots");
    }
  });

  it("refuses the homes of all, and each as a whole, where they are behind a link", () => {
    const root = readdirSync("/", { withFileTypes: true })
      .filter(({ name }) => name !== "home" && name !== "var")
      .flatMap((entry) => {
        const path = `/${entry.name}`;
        return entry.isSymbolicLink() ? ["--symlink", readlinkSync(path), path] : ["--dev-bind", path, path];
      });
    const homes = ["--tmpfs", "/var", "--dir", "/var/home/ada/repo", "--symlink", "var/home", "/home"];
    const refused = ["/home", "/var/home", "/home/ada", "/var/home/ada"];
    expect(saidWith(homes, [...refused, "/home/ada/repo"], root)).toEqual([
      ...refused.map(() => expect.stringContaining("it holds more than one project")),
      expect.stringContaining('"roots"'),
    ]);
  });

  it("asks for no home of a user who has none", () => {
    const nobody = ["--unshare-user", "--uid", "54321", "--unsetenv", "HOME"];
    expect(saidWith(nobody, [base])).toEqual([expect.stringContaining('"roots"')]);
  });

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
      "/var/lib",
      "/var/log",
      "/var/tmp",
      "/var/run:rw",
      homedir(),
      `${base}/home-of-all:ro`,
      `${base}/environment`,
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
