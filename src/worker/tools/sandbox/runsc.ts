/**
 * Runs commands in gVisor: `runsc run` with a separate OCI bundle for each command. The command's system calls go to
 * gVisor's kernel, not to the host's.
 *
 * 1. A command sees the same files as in bubblewrap, and has no network.
 * 2. `runsc run` without `--detach` ends with its container, and the container with it.
 * 3. The bundle holds no command and no secret: a descriptor brings the command. It is removed when the command is over.
 */
import { accessSync, constants, existsSync } from "node:fs";
import { chmod, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Clock } from "../../../shared/clock.ts";
import { messageOf, ToolFailure } from "../../../shared/errors.ts";
import { makeDirectory } from "./directory.ts";
import {
  chownWorkspace,
  ENVIRONMENT,
  isInside,
  LIMITS,
  type Mounts,
  mountsOf,
  passwd,
  SHARED_MEMORY_BYTES,
  SYSTEM_FILES,
  TMP_BYTES,
  topDirectories,
  UNPRIVILEGED,
  WORKSPACE_INSIDE,
} from "./mount.ts";
import { COMMAND, REPORT, runProcess } from "./process.ts";
import type { Command, CommandOutcome, Runner } from "./runner.ts";
import { commandText, readReport, shellProgram } from "./shell.ts";

/** Options of this runner. */
export interface RunscOptions {
  readonly clock: Clock;
  /** True if this process is root. */
  readonly asRoot: boolean;
  /** Path of runsc; default `/usr/local/bin/runsc`, as in gVisor's guide. */
  readonly runsc?: string | undefined;
}

const SHELL = shellProgram({
  before: LIMITS,
  from: COMMAND,
  report: `>&${REPORT}`,
  fallback: WORKSPACE_INSIDE,
});

/** Closes descriptors above {@link COMMAND}: runsc passes open ones on, and needs descriptor 256 for its own streams. */
const CLOSED = `for each in /proc/self/fd/*; do
  each=\${each##*/}
  [ "$each" -gt ${COMMAND} ] && eval "exec $each>&-"
done
exec "$@"`;

/** Creates a runner; undefined if runsc is not installed. Does not test whether runsc works here. */
export function createRunsc(options: RunscOptions): Runner | undefined {
  const { runsc = "/usr/local/bin/runsc" } = options;
  try {
    accessSync(runsc, constants.X_OK);
  } catch {
    return undefined;
  }
  // gVisor's own kernel provides the protections for which bubblewrap needs its filter and its flags.
  const protections = ["workspace", "processes", "network", "capabilities", "gvisor"];
  return { kind: "runsc", protections, run: (command) => run(command, options, runsc) };
}

async function run(
  command: Command,
  { clock, asRoot }: RunscOptions,
  runsc: string,
): Promise<CommandOutcome> {
  const { workspace, signal, timeoutMs, script, cwd = WORKSPACE_INSIDE } = command;
  if (asRoot) await chownWorkspace(workspace.directory);
  const mounts = await mountsOf(workspace, clock, signal);
  const bundle = await makeDirectory("runsc");
  try {
    const uid = asRoot ? UNPRIVILEGED : (process.getuid?.() ?? UNPRIVILEGED);
    await writeBundle(bundle, ociConfig(workspace.directory, mounts, bundle, uid), uid);
    if (signal.aborted) throw new ToolFailure("Cancelled before the command was started.");
    const { report, ...outcome } = await runProcess({
      file: "/bin/bash",
      args: ["-c", CLOSED, "bash", runsc, ...runscArguments(bundle, asRoot)],
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
      cwd: bundle,
      command: commandText(cwd, script),
      inputs: [],
      timeoutMs,
      signal,
      clock,
    });
    const { end } = readReport(report);
    return { ...outcome, ...(isInside(end, mounts.areas) && { cwd: end }), withheld: mounts.withheld };
  } catch (error) {
    if (error instanceof ToolFailure) throw error;
    throw new ToolFailure(`The sandbox cannot be started (${messageOf(error)}); go on without bash.`);
  } finally {
    await rm(bundle, { recursive: true, force: true });
  }
}

/** Returns the arguments: state in the bundle, no network, no cgroups to set up, no sockets or FIFOs of the host. */
export function runscArguments(bundle: string, asRoot: boolean): string[] {
  return [
    ...["--root", join(bundle, "state"), "--network=none", "--ignore-cgroups"],
    ...["--host-uds=none", "--host-fifo=none", "--overlay2=root:memory"],
    ...(asRoot ? [] : ["--rootless"]),
    ...["run", "--bundle", bundle],
    ...[REPORT, COMMAND].flatMap((descriptor) => ["--pass-fd", `${descriptor}:${descriptor}`]),
    // The container's id: the name of the directory is unique already.
    bundle.slice(dirname(bundle).length + 1),
  ];
}

/** A mount of the OCI runtime specification. */
interface OciMount {
  destination: string;
  type: string;
  source: string;
  options: string[];
}

const bind = (source: string, destination: string, mode: "ro" | "rw"): OciMount => ({
  destination,
  type: "bind",
  source,
  options: ["rbind", mode, "nosuid", "nodev"],
});
const memory = (destination: string, bytes: number, ...options: string[]): OciMount => ({
  destination,
  type: "tmpfs",
  source: "tmpfs",
  options: ["nosuid", "nodev", `size=${bytes}`, ...options],
});

/** Returns the `config.json` of a bundle, in version 1.0.2 of the OCI runtime specification. */
export function ociConfig(home: string, mounts: Mounts, bundle: string, uid: number) {
  const none: string[] = [];
  const namespaces = ["pid", "network", "ipc", "uts", "mount"].map((type) => ({ type }));
  return {
    ociVersion: "1.0.2",
    process: {
      terminal: false,
      user: { uid, gid: uid },
      args: ["/bin/bash", "--noprofile", "--norc", "-c", SHELL],
      env: Object.entries(ENVIRONMENT).map(([name, value]) => `${name}=${value}`),
      cwd: WORKSPACE_INSIDE,
      capabilities: { bounding: none, effective: none, inheritable: none, permitted: none, ambient: none },
      noNewPrivileges: true,
    },
    root: { path: "rootfs", readonly: true },
    hostname: "sandbox",
    mounts: [
      ...["/usr", ...directoriesBesideUsr(), ...SYSTEM_FILES.filter((path) => existsSync(path))].map((path) =>
        bind(path, path, "ro"),
      ),
      { destination: "/proc", type: "proc", source: "proc", options: ["nosuid", "noexec", "nodev"] },
      { destination: "/dev", type: "tmpfs", source: "tmpfs", options: ["nosuid"] },
      memory("/dev/shm", SHARED_MEMORY_BYTES),
      memory("/tmp", TMP_BYTES),
      bind(home, WORKSPACE_INSIDE, "rw"),
      ...mounts.areas.map(({ path, shownAs }) => bind(path, shownAs, "ro")),
      ...mounts.directories.map((path) => memory(path, 4096, "ro")),
      ...mounts.files.map((path) => bind(join(bundle, "empty"), path, "ro")),
    ],
    linux: { namespaces },
  };
}

function directoriesBesideUsr(): string[] {
  return topDirectories().flatMap(({ path, target }) => (target === undefined ? [path] : []));
}

async function writeBundle(bundle: string, config: object, uid: number): Promise<void> {
  const rootfs = join(bundle, "rootfs");
  await mkdir(join(rootfs, "etc"), { recursive: true });
  await mkdir(join(rootfs, WORKSPACE_INSIDE));
  for (const { path, target } of topDirectories()) {
    if (target !== undefined) await symlink(target, join(rootfs, path));
  }
  await writeFile(join(rootfs, "etc/passwd"), passwd(uid));
  await writeFile(join(bundle, "empty"), "");
  await writeFile(join(bundle, "config.json"), JSON.stringify(config));
  // Whatever the umask: the modes of new files are subject to it.
  for (const path of [".", "etc", WORKSPACE_INSIDE]) await chmod(join(rootfs, path), 0o755);
  await chmod(join(rootfs, "etc/passwd"), 0o644);
  await chmod(join(bundle, "empty"), 0o444);
}
