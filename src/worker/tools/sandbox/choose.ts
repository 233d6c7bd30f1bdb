/**
 * Decides how `bash` runs on this machine, by running a test command.
 *
 * 1. Without a sandbox that has passed the test there is no runner, unless the operator chooses `unsandboxed`.
 *
 * The test writes only in its own directory; it uses `test -w` for paths that must not be writable.
 */
import { access, constants, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { CLOCK_FORM, type Clock, isClock, systemClock } from "../../../shared/clock.ts";
import { messageOf, SubagentError } from "../../../shared/errors.ts";
import { FLAG, isText, type OptionForms, optionProblems, refuseProblems } from "../../../shared/options.ts";
import { clip } from "../../../shared/protocol/text.ts";
import type { Workspace } from "../workspace.ts";
import { createBubblewrap } from "./bubblewrap.ts";
import { makeDirectory, removeLeftBehind } from "./directory.ts";
import { parseEgress } from "./egress-policy.ts";
import type { Runner } from "./runner.ts";
import { createRunsc } from "./runsc.ts";
import { BASH, createUnconfined } from "./unconfined.ts";

/**
 * The operator's setting for `bash`. `sandboxed` (default): the first sandbox that works here. `bubblewrap`, `runsc`: only
 * that one. `unsandboxed`: with the worker's own rights.
 */
export type BashMode = "sandboxed" | "bubblewrap" | "runsc" | "off" | "unsandboxed";

/** Options of the choice. */
export interface RunnerOptions {
  readonly clock?: Clock;
  /** Default `sandboxed`. */
  readonly mode?: BashMode;
  /** True (default): this is production, where `unsandboxed` also needs `acceptUnsandboxed`. */
  readonly production?: boolean;
  readonly acceptUnsandboxed?: boolean;
  /** Path of bubblewrap; default `/usr/bin/bwrap`. */
  readonly bwrap?: string;
  /** Path of gVisor's runsc; default `/usr/local/bin/runsc`. */
  readonly runsc?: string;
  /** Hosts that commands may reach, and private ranges, in the format of {@link parseEgress}; default: none. */
  readonly egress?: { readonly hosts: string; readonly ranges?: string | undefined } | undefined;
}

const MODES: readonly unknown[] = [
  "sandboxed",
  "bubblewrap",
  "runsc",
  "off",
  "unsandboxed",
] satisfies BashMode[];
const Egress = z.strictObject({ hosts: z.string(), ranges: z.string().optional() });
const FORMS: OptionForms<RunnerOptions> = {
  clock: [isClock, CLOCK_FORM],
  mode: [(value) => MODES.includes(value), "sandboxed, bubblewrap, runsc, off or unsandboxed"],
  production: FLAG,
  acceptUnsandboxed: FLAG,
  bwrap: [isText, "the path of bubblewrap"],
  runsc: [isText, "the path of runsc"],
  egress: [(value) => Egress.safeParse(value).success, "texts: { hosts, ranges }"],
};

/** The chosen runner. `sentence` says how `bash` runs, or why it is not offered, for the banner and for `doctor`. */
export interface RunnerChoice {
  readonly runner?: Runner;
  readonly sentence: string;
}

/** Far more than a start takes; a machine that needs longer runs no commands. */
const PROBE_LIMIT_MS = 10_000;

/** Prints one word for each protection that works. */
const PROOF = `
[ "$(pwd)" = /workspace ] && echo mine > proof && [ "$(cat proof)" = mine ] && echo workspace
for path in /proc/sys/kernel/hostname /proc/sys/kernel/core_pattern /proc/sysrq-trigger /usr /etc / /dev /sys; do
  [ -w "$path" ] && echo "writable:$path"
done
set -- /proc/[0-9]*
[ "$#" -lt 10 ] && echo processes
[ "$(grep -c : /proc/net/dev)" -le 1 ] && echo network
grep -q '^CapEff:[[:space:]]*0*$' /proc/self/status && grep -q '^CapBnd:[[:space:]]*0*$' /proc/self/status && echo capabilities
grep -q '^Seccomp:[[:space:]]*2' /proc/self/status && echo seccomp
grep -q '^NoNewPrivs:[[:space:]]*1' /proc/self/status && echo privileges
! (unshare --user true) 2>/dev/null && echo namespaces
if [ -n "$http_proxy" ] && exec 9<>/dev/tcp/127.0.0.1/3128; then
  printf 'CONNECT probe.invalid:1 HTTP/1.1\\r\\nhost: probe.invalid\\r\\n\\r\\n' >&9
  read -r -t 5 line <&9 && [ "\${line#* 403 }" != "$line" ] && echo proxy
fi
dmesg 2>/dev/null | grep -q gVisor && echo gvisor
`;

const PROTECTIONS = new Set(PROOF.match(/(?<=echo )[a-z]+$/gm));

/**
 * @throws {SubagentError} `invalid_config` if production would run commands unsandboxed without the operator's consent, if
 * the list of hosts is invalid, or if options are wrong: each is named.
 */
export async function chooseRunner(given: RunnerOptions = {}): Promise<RunnerChoice> {
  const wrong = optionProblems(given, FORMS, { maker: "chooseRunner" });
  refuseProblems("A runner of commands", wrong);
  const { clock = systemClock, mode = "sandboxed", production = true, ...more } = given;
  const { acceptUnsandboxed = false } = given;
  const options = { ...more, clock, mode, production, acceptUnsandboxed };
  if (options.mode === "off") return { sentence: "bash is off (SUBAGENT_BASH=off)." };
  if (options.mode === "unsandboxed") return unconfined(options);
  if (process.platform !== "linux") return { sentence: "bash is not offered: its sandbox needs Linux." };
  await removeLeftBehind(options.clock);
  const asRoot = process.getuid?.() === 0;
  const problems: string[] = [];
  for (const candidate of CANDIDATES) {
    if (options.mode !== "sandboxed" && options.mode !== candidate) continue;
    const runner = create(candidate, options, asRoot);
    const problem = typeof runner === "string" ? runner : await sandboxProblem(runner);
    if (typeof runner === "string" || problem !== undefined) {
      problems.push(`${candidate}: ${problem}`);
      continue;
    }
    const user = asRoot ? ", as the user nobody" : "";
    return { runner, sentence: `bash runs in ${candidate}, ${networkOf(runner, options)}${user}.` };
  }
  return {
    sentence:
      `bash is not offered: no sandbox runs here (${problems.join("; ")}). Install bubblewrap and allow user ` +
      "namespaces, install gVisor's runsc, or confine the worker yourself and set SUBAGENT_BASH=unsandboxed.",
  };
}

/** Sandboxes in the order in which they are tried. */
const CANDIDATES = ["bubblewrap", "runsc"] as const;

/** Creates a runner, or returns why it cannot. */
function create(
  candidate: (typeof CANDIDATES)[number],
  { clock, bwrap, runsc, egress: given }: RunnerOptions & { clock: Clock },
  asRoot: boolean,
): Runner | string {
  const egress = given && parseEgress(given.hosts, given.ranges);
  if (egress && "problem" in egress)
    throw new SubagentError("invalid_config", `Commands cannot be given this network: ${egress.problem}.`);
  if (candidate === "runsc") return createRunsc({ clock, asRoot, runsc }) ?? "it is not installed";
  return (
    createBubblewrap({ clock, asRoot, machine: process.arch, bwrap, egress }) ??
    `no seccomp filter is known for ${process.arch}`
  );
}

function networkOf({ hosts }: Runner, { egress }: RunnerOptions): string {
  if (hosts !== undefined) return `with a proxy to ${hosts.join(", ")} as its network`;
  return egress === undefined ? "without network" : "without network, which needs bubblewrap here";
}

async function unconfined({
  clock,
  production,
  acceptUnsandboxed,
}: RunnerOptions & { clock: Clock }): Promise<RunnerChoice> {
  if (production && !acceptUnsandboxed) {
    throw new SubagentError(
      "invalid_config",
      "SUBAGENT_BASH=unsandboxed gives every sub-agent the worker's own rights: in production set " +
        "SUBAGENT_BASH_ACCEPT_RISK=yes as well, or unset SUBAGENT_BASH.",
    );
  }
  try {
    await access(BASH, constants.X_OK);
  } catch {
    return {
      sentence: `bash is not offered: there is no ${BASH} here. Install it; images of Alpine lack it.`,
    };
  }
  return {
    runner: createUnconfined(clock),
    sentence: "bash runs WITHOUT a sandbox, with the worker's own rights.",
  };
}

/** Returns the problem of the sandbox here; undefined if every protection works. */
async function sandboxProblem(runner: Runner): Promise<string | undefined> {
  try {
    // The outer directory stays this user's when the sandbox changes the owner of the inner one, so the next worker can remove it.
    const outer = await makeDirectory("bash");
    try {
      return await missingProtections(runner, outer);
    } finally {
      await rm(outer, { recursive: true, force: true });
    }
  } catch (error) {
    return messageOf(error);
  }
}

async function missingProtections(runner: Runner, outer: string): Promise<string | undefined> {
  const directory = join(outer, "workspace");
  await mkdir(directory);
  const { output, exitCode } = await runner.run({
    script: PROOF,
    workspace: probeWorkspace(directory),
    timeoutMs: PROBE_LIMIT_MS,
    signal: new AbortController().signal,
  });
  const words = output.split("\n").filter((word) => word !== "");
  const missing = runner.protections.filter((word) => !words.includes(word));
  const open = words.filter((word) => !PROTECTIONS.has(word));
  if (missing.length === 0 && open.length === 0) return undefined;
  if (missing.length === runner.protections.length)
    return clip(open.join(" "), 200) || `it ended with ${exitCode}`;
  return `not isolated: ${clip([...missing, ...open].join(", "), 200)}`;
}

function probeWorkspace(directory: string): Workspace {
  return {
    directory,
    hidden: directory,
    home: { kind: "workspace", path: directory, shownAs: ".", writable: true },
    roots: [],
    exclusive: (work) => work(),
  };
}
