/**
 * Files of this machine that a command sees in every runner: the system, its workspace and the opened directories, without
 * files that may hold secrets.
 */
import { lstatSync, readlinkSync } from "node:fs";
import { lchown, lstat } from "node:fs/promises";
import type { Clock } from "../../../shared/clock.ts";
import { codeOf } from "../../../shared/errors.ts";
import { listDirectory, startOf } from "../files/list.ts";
import type { Area, Workspace } from "../workspace.ts";
import { type CoveredEntry, coverOf } from "./withheld.ts";

/** Path of the workspace inside the sandbox. */
export const WORKSPACE_INSIDE = "/workspace";

/** The unprivileged user that replaces root: `nobody`. */
export const UNPRIVILEGED = 65_534;

const MB = 1024 * 1024;
/** Sizes of `/tmp` and `/dev/shm`. */
export const TMP_BYTES = 256 * MB;
/** See {@link TMP_BYTES}. */
export const SHARED_MEMORY_BYTES = 64 * MB;

/** Limits of each process: no core files, 1 GB per file, 4 GB of data, 512 processes, 1,024 files, 10 minutes of CPU. */
export const LIMITS = "ulimit -c 0 -f 1048576 -d 4194304 -u 512 -n 1024 -t 600";

/** The environment of a command. */
export const ENVIRONMENT: Readonly<Record<string, string>> = {
  PATH: "/usr/local/bin:/usr/bin:/bin",
  HOME: "/tmp",
  LANG: "C.UTF-8",
  TERM: "dumb",
};

/** Entries of `/etc` that programs need to start; mounted if they exist. */
export const SYSTEM_FILES = ["alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"].map(
  (name) => `/etc/${name}`,
);

/** Returns the directories beside /usr, on most systems links into it; a real directory has no `target`. */
export function topDirectories(): { path: string; target?: string }[] {
  return ["bin", "sbin", "lib", "lib32", "lib64", "libx32"].flatMap((name) => {
    const path = `/${name}`;
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (stat === undefined) return [];
    return stat.isSymbolicLink() ? [{ path, target: readlinkSync(path) }] : [{ path }];
  });
}

/** Returns the `/etc/passwd` of a command; it has only the command's user. */
export function passwd(uid: number): string {
  return `agent:x:${uid}:${uid}:agent:/tmp:/bin/bash\n`;
}

/** Opened directories as shown to the command; covered files and directories in them, as paths inside. */
export interface Mounts {
  readonly areas: readonly Area[];
  readonly files: readonly string[];
  readonly directories: readonly string[];
  readonly withheld: readonly string[];
}

/** Returns which roots can be shown, and which paths in them are covered, as paths inside. */
export async function mountsOf(
  { roots, hidden }: Workspace,
  clock: Clock,
  signal: AbortSignal,
): Promise<Mounts> {
  const mounts = {
    areas: [] as Area[],
    files: [] as string[],
    directories: [] as string[],
    withheld: [] as string[],
  };
  const covered: CoveredEntry[] = [];
  // A root inside another one is mounted after it, otherwise it would be hidden.
  for (const area of roots.toSorted((a, b) => a.shownAs.length - b.shownAs.length)) {
    const cover = showsWorkspaces(area, hidden)
      ? { problem: "the workspaces of other agents lie in it" }
      : await coverOf(area, clock, signal);
    if ("problem" in cover) {
      mounts.withheld.push(`${area.shownAs} (${cover.problem})`);
      continue;
    }
    mounts.areas.push(area);
    covered.push(...cover.entries);
  }
  for (const { path, isDirectory } of covered) {
    // Opened by the operator itself: its own scan hides what is in it.
    if (mounts.areas.some((area) => area.path === path)) continue;
    (isDirectory ? mounts.directories : mounts.files).push(...shownPaths(path, mounts.areas));
  }
  return withoutCovered(mounts);
}

/** Removes what lies in covered directories: other covered paths, and opened directories, which are named as withheld. */
function withoutCovered({ areas, files, directories, withheld }: Mounts): Mounts {
  const isCovered = ({ shownAs }: Area) => outside(directories, [shownAs]).length === 0;
  const lost = areas.filter(isCovered).map(({ shownAs }) => `${shownAs} (a hidden directory holds it)`);
  return {
    areas: areas.filter((area) => !isCovered(area)),
    files: outside(directories, files),
    directories: outside(directories, directories),
    withheld: [...withheld, ...lost],
  };
}

/** Returns the paths inside that show a host path: one for each area that contains it. */
function shownPaths(path: string, areas: readonly Area[]): string[] {
  const around = areas.filter((area) => path.startsWith(`${area.path}/`));
  return around.map((area) => `${area.shownAs}${path.slice(area.path.length)}`);
}

/** Removes duplicates and paths inside covered directories, which are covered already. */
function outside(directories: readonly string[], paths: readonly string[]): string[] {
  return [...new Set(paths)].filter((path) => !directories.some((each) => path.startsWith(`${each}/`)));
}

/** Checks whether an area shows the workspaces of other agents; by default a covered directory holds them. */
function showsWorkspaces({ path }: Area, hidden: string): boolean {
  if (`${path}/`.startsWith(`${hidden}/`)) return true;
  return hidden.startsWith(`${path}/`) && !hidden.slice(path.length).split("/").includes(".subagent-queue");
}

/** Checks whether the next command may start in this path, by its text; a script may write any other text there. */
export function isInside(path: string, areas: readonly Area[]): boolean {
  const mounts = [WORKSPACE_INSIDE, ...areas.map(({ shownAs }) => shownAs)];
  return !/\p{Cc}/u.test(path) && mounts.some((mount) => path === mount || path.startsWith(`${mount}/`));
}

/**
 * Gives a workspace to the user that replaces root, once: files that the tools create later belong to the owner of their
 * directory. At that time the workspace holds only files that the tools were allowed to write, and none of commands. The
 * workspace directory itself comes last, so that an interrupted walk is repeated. No command runs meanwhile. A file with a
 * second name keeps its owner, because the other name may be anywhere.
 */
export async function chownWorkspace(directory: string): Promise<void> {
  if ((await lstat(directory)).uid === UNPRIVILEGED) return;
  const open = await startOf(directory);
  for (let here = open.pop(); here !== undefined; here = open.pop()) {
    try {
      for await (const { path, at, isDirectory } of listDirectory(here)) {
        if (isDirectory) {
          await lchown(at, UNPRIVILEGED, UNPRIVILEGED);
          open.push(path);
        } else await chownFile(at);
      }
    } catch (error) {
      // Files deeper than a path can name are out of a command's reach, too.
      if (!GONE_OR_TOO_DEEP.has(codeOf(error))) throw error;
    }
  }
  await lchown(directory, UNPRIVILEGED, UNPRIVILEGED);
}

const GONE_OR_TOO_DEEP: ReadonlySet<string | undefined> = new Set(["ENOENT", "ENAMETOOLONG"]);

async function chownFile(path: Buffer): Promise<void> {
  const { uid, nlink } = await lstat(path);
  if (uid !== UNPRIVILEGED && nlink === 1) await lchown(path, UNPRIVILEGED, UNPRIVILEGED);
}
