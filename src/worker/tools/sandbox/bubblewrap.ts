/**
 * Runs commands in bubblewrap: one process tree per command, in its own namespaces.
 *
 * 1. A command sees the system read-only, its workspace, and the opened directories read-only, without files that hold
 *    secrets. It has no network except through its own proxy, no capabilities, no terminal, and cannot create namespaces.
 * 2. Every process of a command dies with its shell, on its time limit, with its run, and with this process.
 * 3. As root, privileges are dropped before bubblewrap starts, because kernel settings are writable inside root's
 *    bubblewrap. Before that, only mounts are made, in a separate mount namespace.
 * 4. Neither the arguments nor the environment of the sandbox contain host paths.
 */
import { basename, dirname, join } from "node:path";
import type { Clock } from "../../../shared/clock.ts";
import { messageOf, ToolFailure } from "../../../shared/errors.ts";
import { type Egress, FORWARDER, openEgress, PROXY_INSIDE } from "./egress.ts";
import type { EgressPolicy } from "./egress-policy.ts";
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
import { COMMAND, FIRST_INPUT, INFO, type ProcessOptions, REPORT, runProcess } from "./process.ts";
import type { Command, CommandOutcome, Runner } from "./runner.ts";
import { seccompFilter } from "./seccomp.ts";
import { commandText, readReport, shellProgram, shellQuoted } from "./shell.ts";

/** Options of the sandbox on this machine. */
export interface BubblewrapOptions {
  readonly clock: Clock;
  /** True if this process is root. */
  readonly asRoot: boolean;
  /** The machine as Node names it: `x64`, `arm64`. */
  readonly machine: string;
  /** Path of bubblewrap; default `/usr/bin/bwrap`. */
  readonly bwrap?: string;
  /** Hosts that commands may reach; absent: no network. */
  readonly egress?: EgressPolicy | undefined;
}

const [ARGUMENTS, FILTER, PASSWD] = [FIRST_INPUT, FIRST_INPUT + 1, FIRST_INPUT + 2];

const shellAfter = (before: string): string =>
  shellProgram({
    before: `${LIMITS}\nexec ${FILTER}>&- ${PASSWD}<&-${before}`,
    from: COMMAND,
    report: `>&${REPORT}`,
    fallback: WORKSPACE_INSIDE,
  });
const SHELL = shellAfter("");
/** Waits until the forwarder listens or has ended. The forwarder is no child of the shell, so `wait` ignores it. */
const SHELL_WITH_NETWORK = shellAfter(
  `\nIFS= read -r _ < <( (exec ${PROXY_INSIDE.node} -e ${shellQuoted(FORWARDER)} 2>/dev/null ${REPORT}>&- ${COMMAND}<&-) & )`,
);

/**
 * Starts the command in its own session, so that it cannot signal its launcher. bubblewrap's own `--new-session` would also
 * take the sandbox's first process out of the launcher's group, before it is bound to the launcher.
 */
const BASH = ["/usr/bin/setsid", "/bin/bash", "--noprofile", "--norc", "-c"];

/** Mounts the directories where the unprivileged user can reach them, and changes from root to that user. */
const AS_ROOT = `set -e
mount -t tmpfs -o mode=0755,size=64k tmpfs /mnt
n=0
bwrap=$1
shift
for source do mkdir "/mnt/$n"; mount --rbind "$source" "/mnt/$n"; n=$((n+1)); done
exec /usr/bin/setpriv --reuid ${UNPRIVILEGED} --regid ${UNPRIVILEGED} --clear-groups --no-new-privs "$bwrap" \\
  --args ${ARGUMENTS} -- ${BASH.join(" ")} "$SHELL_PROGRAM"`;

/** Creates a runner; undefined if the machine's system calls are unknown. Does not test whether bubblewrap works here. */
export function createBubblewrap(options: BubblewrapOptions): Runner | undefined {
  const filter = seccompFilter(options.machine);
  if (filter === undefined) return undefined;
  const protections = [
    "workspace",
    "processes",
    "network",
    "capabilities",
    "seccomp",
    "privileges",
    "namespaces",
  ];
  const { egress } = options;
  return {
    kind: "bubblewrap",
    protections: egress === undefined ? protections : [...protections, "proxy"],
    ...(egress && { hosts: egress.hosts }),
    run: (command) => run(command, options, filter),
  };
}

async function run(command: Command, options: BubblewrapOptions, filter: Buffer): Promise<CommandOutcome> {
  const { workspace, signal } = command;
  if (options.asRoot) await chownWorkspace(workspace.directory);
  const mounts = await mountsOf(workspace, options.clock, signal);
  if (signal.aborted) throw new ToolFailure("Cancelled before the command was started.");
  let egress: Egress | undefined;
  try {
    egress = options.egress && (await openEgress(options.egress));
    const outcome = await start(command, options, { filter, mounts, egress });
    const network = await egress?.close();
    return { ...outcome, withheld: mounts.withheld, ...(network && { network }) };
  } catch (error) {
    await egress?.close();
    throw new ToolFailure(`The sandbox cannot be started (${messageOf(error)}); go on without bash.`);
  }
}

interface Parts {
  readonly filter: Buffer;
  readonly mounts: Mounts;
  readonly egress: Egress | undefined;
}

async function start(
  { workspace, signal, timeoutMs, script, cwd = WORKSPACE_INSIDE }: Command,
  options: BubblewrapOptions,
  { filter, mounts, egress }: Parts,
): Promise<Omit<CommandOutcome, "withheld">> {
  const network = egress === undefined ? [] : [egress.directory, dirname(process.execPath)];
  const sources = [...network, workspace.directory, ...mounts.areas.map(({ path }) => path)];
  const inside = options.asRoot ? sources.map((_, index) => `/mnt/${index}`) : sources;
  const uid = options.asRoot ? UNPRIVILEGED : (process.getuid?.() ?? UNPRIVILEGED);
  const args = [
    ...systemArguments(),
    ...(egress === undefined ? [] : networkArguments(inside)),
    ...mountArguments(inside.slice(network.length), mounts),
    ...LAST,
  ];
  const { report, ...outcome } = await runProcess({
    ...launcher(options, sources, egress === undefined ? SHELL : SHELL_WITH_NETWORK),
    cwd: "/",
    ownNamespace: true,
    command: commandText(cwd, script),
    inputs: [args.map((arg) => `${arg}\0`).join(""), filter, passwd(uid)],
    timeoutMs,
    signal,
    clock: options.clock,
  });
  const { end } = readReport(report);
  return { ...outcome, ...(isInside(end, mounts.areas) && { cwd: end }) };
}

function launcher(
  { asRoot, bwrap = "/usr/bin/bwrap" }: BubblewrapOptions,
  sources: readonly string[],
  shell: string,
): Pick<ProcessOptions, "file" | "args" | "env"> {
  if (!asRoot) {
    return { file: bwrap, args: ["--args", `${ARGUMENTS}`, "--", ...BASH, shell], env: {} };
  }
  const namespace = ["--mount", "--propagation", "private", "/bin/sh", "-c"];
  const program = AS_ROOT.replace('"$SHELL_PROGRAM"', () => shellQuoted(shell));
  return {
    file: "/usr/bin/unshare",
    args: [...namespace, program, "sh", bwrap, ...sources],
    env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" },
  };
}

const FRESH = [
  ...["--unshare-all", "--unshare-user", "--disable-userns"],
  ...["--die-with-parent", "--info-fd", `${INFO}`],
];
const LAST = ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", WORKSPACE_INSIDE];

const CERTIFICATES = [
  "/etc/ssl/certs",
  "/etc/ssl/openssl.cnf",
  "/etc/pki/tls/certs",
  "/etc/pki/ca-trust/extracted",
];

function systemArguments(): string[] {
  return [
    ...[...FRESH, "--cap-drop", "ALL", "--hostname", "sandbox", "--seccomp", `${FILTER}`],
    ...["--clearenv", ...Object.entries(ENVIRONMENT).flatMap(([name, value]) => ["--setenv", name, value])],
    ...["--ro-bind", "/usr", "/usr"],
    ...topDirectories().flatMap(({ path, target }) =>
      target === undefined ? ["--ro-bind", path, path] : ["--symlink", target, path],
    ),
    ...SYSTEM_FILES.flatMap((path) => ["--ro-bind-try", path, path]),
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

/** Arguments for the proxy's socket, the program that connects to it, and the certificate authorities. */
function networkArguments([socket = "", program = ""]: readonly string[]): string[] {
  const { host, port, directory, node } = PROXY_INSIDE;
  const names = ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];
  return [
    ...["--ro-bind", socket, directory, "--ro-bind", join(program, basename(process.execPath)), node],
    ...CERTIFICATES.flatMap((path) => ["--ro-bind-try", path, path]),
    ...names.flatMap((name) => ["--setenv", name, `http://${host}:${port}`]),
    // Newer versions of node need it to use the proxy.
    ...["--setenv", "NODE_USE_ENV_PROXY", "1"],
  ];
}

function mountArguments([home = "", ...roots]: readonly string[], mounts: Mounts): string[] {
  return [
    ...["--bind", home, WORKSPACE_INSIDE],
    ...roots.flatMap((source, index) => ["--ro-bind", source, mounts.areas[index]?.shownAs ?? source]),
    ...mounts.directories.flatMap((path) => ["--size", "4096", "--tmpfs", path, "--remount-ro", path]),
    ...mounts.files.flatMap((path) => ["--ro-bind", "/dev/null", path]),
  ];
}
