/**
 * Runs commands in bubblewrap: one process tree a command, in namespaces of its own.
 *
 * 1. A command sees the system read-only, its workspace, and the opened directories read-only, without what holds
 *    secrets. It has no network, no capabilities, no terminal, and no way to new namespaces.
 * 2. Every process of a command dies with it: with its shell, its time, its run, and this process.
 * 3. As root the user is dropped before bubblewrap starts: behind root's bubblewrap the kernel's settings are writable.
 *    Until then only mounts are made, in a mount namespace of their own.
 * 4. Neither the arguments nor the environment of the sandbox say where anything lies on the host.
 */

import { lstatSync, readlinkSync } from "node:fs";
import { lchown, lstat, opendir } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../../shared/clock.ts";
import { messageOf } from "../../../shared/errors.ts";
import { ToolFailure } from "../tool.ts";
import type { Area, Workspace } from "../workspace.ts";
import { type ProcessOptions, runProcess } from "./process.ts";
import type { Command, CommandOutcome, Runner } from "./runner.ts";
import { seccompFilter } from "./seccomp.ts";
import { coverOf } from "./withheld.ts";

/** What the sandbox of this machine is made of. */
export interface BubblewrapOptions {
  readonly clock: Clock;
  /** Whether this process is root. */
  readonly asRoot: boolean;
  /** The machine as Node names it: `x64`, `arm64`. */
  readonly machine: string;
  /** Path of bubblewrap; default `/usr/bin/bwrap`. */
  readonly bwrap?: string;
}

/** Where a command sees its workspace. */
const WORKSPACE_INSIDE = "/workspace";

/** The user that root becomes: `nobody`. */
const UNPRIVILEGED = 65_534;
const MB = 1024 * 1024;
const TMP_BYTES = 256 * MB;
const SHARED_MEMORY_BYTES = 64 * MB;

const ARGUMENTS = 4;
const FILTER = 5;
const SCRIPT = 6;
const PASSWD = 7;

/** Limits of each process: core files none, 1 GB a file, 4 GB of data, 512 processes, 1,024 files, 10 minutes of processor. */
const LIMITS = "ulimit -c 0 -f 1048576 -d 4194304 -u 512 -n 1024 -t 600";

/**
 * Reads the starting directory and the script, and tells at the end where it stands. The descriptors are moved out of the
 * script's way.
 */
const SHELL = `exec 2>&1
${LIMITS}
exec 5>&- 7<&-
IFS= read -r -u ${SCRIPT} cwd
script="$(cat <&${SCRIPT})"
exec ${SCRIPT}<&-
cd -- "$cwd" 2>/dev/null || cd ${WORKSPACE_INSIDE}
trap 'pwd -P >&3' EXIT
unset cwd
eval "$script"`;

/** Makes the directories reachable for the user that root becomes, and becomes it. */
const AS_ROOT = `set -e
mount -t tmpfs -o mode=0755,size=64k tmpfs /mnt
n=0
bwrap=$1
shift
for source do mkdir "/mnt/$n"; mount --rbind "$source" "/mnt/$n"; n=$((n+1)); done
exec /usr/bin/setpriv --reuid ${UNPRIVILEGED} --regid ${UNPRIVILEGED} --clear-groups --no-new-privs "$bwrap" \\
  --args ${ARGUMENTS} -- /bin/bash --noprofile --norc -c "$SHELL_PROGRAM"`;

/** A runner; nothing for a machine whose system calls are not known. It does not ask whether bubblewrap works here. */
export function createBubblewrap(options: BubblewrapOptions): Runner | undefined {
  const filter = seccompFilter(options.machine);
  if (filter === undefined) return undefined;
  return { kind: "bubblewrap", run: (command) => run(command, options, filter) };
}

async function run(command: Command, options: BubblewrapOptions, filter: Buffer): Promise<CommandOutcome> {
  const { workspace, signal, timeoutMs, script, cwd = WORKSPACE_INSIDE } = command;
  if (options.asRoot) await handOver(workspace.directory);
  const mounts = await mountsOf(workspace, options.clock, signal);
  if (signal.aborted) throw new ToolFailure("Cancelled before the command was started.");
  const sources = [workspace.directory, ...mounts.areas.map(({ path }) => path)];
  const inside = options.asRoot ? sources.map((_, index) => `/mnt/${index}`) : sources;
  const uid = options.asRoot ? UNPRIVILEGED : (process.getuid?.() ?? UNPRIVILEGED);
  const args = [...systemArguments(), ...mountArguments(inside, mounts), ...LAST];
  try {
    const outcome = await runProcess({
      ...launcher(options, sources),
      cwd: "/",
      inputs: [args.map((arg) => `${arg}\0`).join(""), filter, `${cwd}\n${script}`, passwd(uid)],
      timeoutMs,
      signal,
      group: true,
      clock: options.clock,
    });
    const { report, ...rest } = outcome;
    const end = report.trim();
    return { ...rest, ...(isInside(end, mounts.areas) && { cwd: end }), withheld: mounts.withheld };
  } catch (error) {
    throw new ToolFailure(`The sandbox cannot be started (${messageOf(error)}); go on without bash.`);
  }
}

function launcher(
  { asRoot, bwrap = "/usr/bin/bwrap" }: BubblewrapOptions,
  sources: readonly string[],
): Pick<ProcessOptions, "file" | "args" | "env"> {
  if (!asRoot) {
    const shell = ["--", "/bin/bash", "--noprofile", "--norc", "-c", SHELL];
    return { file: bwrap, args: ["--args", `${ARGUMENTS}`, ...shell], env: {} };
  }
  const namespace = ["--mount", "--propagation", "private", "/bin/sh", "-c"];
  const program = AS_ROOT.replace('"$SHELL_PROGRAM"', () => quoted(SHELL));
  return {
    file: "/usr/bin/unshare",
    args: [...namespace, program, "sh", bwrap, ...sources],
    env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
  };
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

interface Mounts {
  readonly areas: readonly Area[];
  readonly files: readonly string[];
  readonly directories: readonly string[];
  readonly withheld: readonly string[];
}

/** Which roots can be shown, and what in them is covered, as paths inside. */
async function mountsOf({ roots, hidden }: Workspace, clock: Clock, signal: AbortSignal): Promise<Mounts> {
  const mounts = {
    areas: [] as Area[],
    files: [] as string[],
    directories: [] as string[],
    withheld: [] as string[],
  };
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
  }
  return mounts;
}

/** Whether an area shows the workspaces of other agents; by default they lie in a directory that is covered anyway. */
function showsWorkspaces({ path }: Area, hidden: string): boolean {
  if (`${path}/`.startsWith(`${hidden}/`)) return true;
  return hidden.startsWith(`${path}/`) && !hidden.slice(path.length).split("/").includes(".subagent-queue");
}

const FRESH = ["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"];
const LAST = ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", WORKSPACE_INSIDE];

function systemArguments(): string[] {
  return [
    ...[...FRESH, "--cap-drop", "ALL", "--hostname", "sandbox", "--seccomp", `${FILTER}`],
    ...["--clearenv", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin", "--setenv", "HOME", "/tmp"],
    ...["--setenv", "LANG", "C.UTF-8", "--setenv", "TERM", "dumb"],
    ...["--ro-bind", "/usr", "/usr"],
    ...["bin", "sbin", "lib", "lib32", "lib64", "libx32"].flatMap(topDirectory),
    ...["/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"].flatMap((path) => [
      "--ro-bind-try",
      path,
      path,
    ]),
    ...["--ro-bind-data", `${PASSWD}`, "/etc/passwd", "--proc", "/proc", "--dev", "/dev"],
    ...[
      "--size",
      `${SHARED_MEMORY_BYTES}`,
      "--tmpfs",
      "/dev/shm",
      "--size",
      `${TMP_BYTES}`,
      "--tmpfs",
      "/tmp",
    ],
  ];
}

/** `/bin` and its like are links into /usr on most systems. */
function topDirectory(name: string): string[] {
  const path = `/${name}`;
  const stat = lstatSync(path, { throwIfNoEntry: false });
  if (stat === undefined) return [];
  return stat.isSymbolicLink() ? ["--symlink", readlinkSync(path), path] : ["--ro-bind", path, path];
}

function mountArguments([home = "", ...roots]: readonly string[], mounts: Mounts): string[] {
  return [
    ...["--bind", home, WORKSPACE_INSIDE],
    ...roots.flatMap((source, index) => ["--ro-bind", source, mounts.areas[index]?.shownAs ?? source]),
    ...mounts.directories.flatMap((path) => ["--size", "4096", "--tmpfs", path, "--remount-ro", path]),
    ...mounts.files.flatMap((path) => ["--ro-bind", "/dev/null", path]),
  ];
}

function passwd(uid: number): string {
  return `agent:x:${uid}:${uid}:agent:/tmp:/bin/bash\n`;
}

/** A path that the next command may start in, by its spelling; anything else that the script wrote there is forgotten. */
function isInside(path: string, areas: readonly Area[]): boolean {
  const places = [WORKSPACE_INSIDE, ...areas.map(({ shownAs }) => shownAs)];
  return !/\p{Cc}/u.test(path) && places.some((place) => path === place || path.startsWith(`${place}/`));
}

/**
 * Gives a workspace to the user that root becomes. No command runs in it meanwhile. A file with a second name keeps its
 * owner: the other name may stand anywhere.
 */
async function handOver(directory: string): Promise<void> {
  await lchown(directory, UNPRIVILEGED, UNPRIVILEGED);
  for await (const entry of await opendir(directory)) {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) {
      await handOver(path);
      continue;
    }
    const { uid, nlink } = await lstat(path);
    if (uid !== UNPRIVILEGED && nlink === 1) await lchown(path, UNPRIVILEGED, UNPRIVILEGED);
  }
}
