/**
 * What a command sees of this machine's files, whatever runner mounts it: the system, its workspace and the opened directories,
 * without what may hold secrets.
 */
import { lstatSync, readlinkSync } from "node:fs";
import { lchown, lstat } from "node:fs/promises";
import type { Clock } from "../../../shared/clock.ts";
import { codeOf, listDirectory, startOf } from "../files/list.ts";
import type { Area, Workspace } from "../workspace.ts";
import { coverOf, type LinkTarget } from "./withheld.ts";

/** Where a command sees its workspace. */
export const WORKSPACE_INSIDE = "/workspace";

/** The user that root becomes: `nobody`. */
export const UNPRIVILEGED = 65_534;

const MB = 1024 * 1024;
/** Sizes of `/tmp` and `/dev/shm`. */
export const TMP_BYTES = 256 * MB;
/** See {@link TMP_BYTES}. */
export const SHARED_MEMORY_BYTES = 64 * MB;

/** Limits of each process: core files none, 1 GB a file, 4 GB of data, 512 processes, 1,024 files, 10 minutes of processor. */
export const LIMITS = "ulimit -c 0 -f 1048576 -d 4194304 -u 512 -n 1024 -t 600";

/** The environment of a command. */
export const ENVIRONMENT: Readonly<Record<string, string>> = {
  PATH: "/usr/local/bin:/usr/bin:/bin",
  HOME: "/tmp",
  LANG: "C.UTF-8",
  TERM: "dumb",
};

/** What of `/etc` programs need to start; mounted where it is there. */
export const SYSTEM_FILES = ["alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"].map(
  (name) => `/etc/${name}`,
);

/** The directories beside /usr, which are links into it on most systems: their targets, or none where they are none. */
export function topDirectories(): { path: string; target?: string }[] {
  return ["bin", "sbin", "lib", "lib32", "lib64", "libx32"].flatMap((name) => {
    const path = `/${name}`;
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (stat === undefined) return [];
    return stat.isSymbolicLink() ? [{ path, target: readlinkSync(path) }] : [{ path }];
  });
}

/** The `/etc/passwd` of a command: itself. */
export function passwd(uid: number): string {
  return `agent:x:${uid}:${uid}:agent:/tmp:/bin/bash\n`;
}

/** Opened directories as they are shown; files and directories below them that are covered, as paths inside. */
export interface Mounts {
  readonly areas: readonly Area[];
  readonly files: readonly string[];
  readonly directories: readonly string[];
  readonly withheld: readonly string[];
}

/** Which roots can be shown, and what in them is covered, as paths inside. */
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
  const targets: LinkTarget[] = [];
  // A root inside another one is mounted after it, or it would not be seen.
  for (const area of roots.toSorted((a, b) => a.shownAs.length - b.shownAs.length)) {
    const cover = showsWorkspaces(area, hidden)
      ? { problem: "the workspaces of other agents lie in it" }
      : await coverOf(area, clock, signal);
    if ("problem" in cover) {
      mounts.withheld.push(`${area.shownAs} (${cover.problem})`);
      continue;
    }
    mounts.areas.push(area);
    mounts.files.push(...cover.files.map((path) => `${area.shownAs}/${path}`));
    mounts.directories.push(...cover.directories.map((path) => `${area.shownAs}/${path}`));
    targets.push(...cover.targets);
  }
  for (const { path, isDirectory } of targets)
    (isDirectory ? mounts.directories : mounts.files).push(...shownPaths(path, mounts.areas));
  const { files, directories } = mounts;
  return { ...mounts, files: outside(directories, files), directories: outside(directories, directories) };
}

/** Where a command sees what lies at a host path: nowhere, or in one of these areas or several. */
function shownPaths(path: string, areas: readonly Area[]): string[] {
  const around = areas.filter((area) => path.startsWith(`${area.path}/`));
  return around.map((area) => `${area.shownAs}${path.slice(area.path.length)}`);
}

/** Each path once, without those inside covered directories: nothing is left there to be covered. */
function outside(directories: readonly string[], paths: readonly string[]): string[] {
  return [...new Set(paths)].filter((path) => !directories.some((each) => path.startsWith(`${each}/`)));
}

/** Whether an area shows the workspaces of other agents; by default they lie in a directory that is covered anyway. */
function showsWorkspaces({ path }: Area, hidden: string): boolean {
  if (`${path}/`.startsWith(`${hidden}/`)) return true;
  return hidden.startsWith(`${path}/`) && !hidden.slice(path.length).split("/").includes(".subagent-queue");
}

/** A path that the next command may start in, by its spelling; anything else that the script wrote there is forgotten. */
export function isInside(path: string, areas: readonly Area[]): boolean {
  const places = [WORKSPACE_INSIDE, ...areas.map(({ shownAs }) => shownAs)];
  return !/\p{Cc}/u.test(path) && places.some((place) => path === place || path.startsWith(`${place}/`));
}

/**
 * Gives a workspace to the user that root becomes, once: what the file tools make later belongs to the owner of its directory.
 * So it is walked while it holds no more than they were allowed to write, and never with what commands left in it. The workspace
 * itself is given last, so that a walk that was cut off begins anew. No command runs in it meanwhile. A file with a second name
 * keeps its owner: the other name may stand anywhere.
 */
export async function handOver(directory: string): Promise<void> {
  if ((await lstat(directory)).uid === UNPRIVILEGED) return;
  const open = await startOf(directory);
  for (let here = open.pop(); here !== undefined; here = open.pop()) {
    try {
      for await (const { path, at, isDirectory } of listDirectory(here)) {
        if (isDirectory) {
          await lchown(at, UNPRIVILEGED, UNPRIVILEGED);
          open.push(path);
        } else await handOverFile(at);
      }
    } catch (error) {
      // What stands deeper than a path can name is out of a command's reach, too.
      if (!GONE_OR_TOO_DEEP.has(codeOf(error))) throw error;
    }
  }
  await lchown(directory, UNPRIVILEGED, UNPRIVILEGED);
}

const GONE_OR_TOO_DEEP: ReadonlySet<string | undefined> = new Set(["ENOENT", "ENAMETOOLONG"]);

async function handOverFile(path: Buffer): Promise<void> {
  const { uid, nlink } = await lstat(path);
  if (uid !== UNPRIVILEGED && nlink === 1) await lchown(path, UNPRIVILEGED, UNPRIVILEGED);
}
