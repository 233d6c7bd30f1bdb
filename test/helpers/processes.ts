/**
 * Starts, watches, stops and kills Node child processes for tests: the built package or a TypeScript file.
 *
 * Owns: the processes it spawned and no others; it sends signals by process id, never by name.
 *
 * 1. A child is killed at the end of its test (or file), and when this process is killed.
 * 2. `closed` resolves after the last line is captured, so the child's output is complete by then.
 */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { RARELY_OPTIMIZED } from "../setup/rarely-optimized.ts";
import { bundled } from "./bundle.ts";
import { closeAtEnd } from "./cleanup.ts";
import { killWhenWeAreGone } from "./reaper.ts";
import { until } from "./until.ts";

/** The repository's root. */
const repositoryRoot = join(import.meta.dirname, "..", "..");

/** Options of a child process. */
export interface NodeOptions {
  /** Options of Node and V8, before the entry; default {@link RARELY_OPTIMIZED}. */
  nodeOptions?: readonly string[];
  /** Arguments after the entry. */
  args?: readonly string[];
  /** Environment variables in addition to this process's; `undefined` removes one. */
  env?: Readonly<Record<string, string | undefined>>;
  /** Default: the repository's root. */
  cwd?: string;
}

/** Exit code or signal of a process: one of the two is null. */
export interface Ending {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** A child process. */
export interface NodeProcess {
  readonly pid: number;
  /** Lines so far, without line ends. */
  readonly stdout: readonly string[];
  readonly stderr: readonly string[];
  /** Resolves when the process has ended and all its output is read. */
  readonly closed: Promise<Ending>;
  readonly isRunning: boolean;
  /** Resolves to the first matching line of either stream, past lines included. Rejects if the process ends before. */
  waitForLine(pattern: RegExp | string, options?: { timeoutMs?: number }): Promise<string>;
  /** Sends SIGSTOP: the process freezes, its sockets stay open. */
  freeze(): void;
  /** Sends SIGCONT. */
  thaw(): void;
  /** Sends a signal (default SIGKILL) and resolves when the process is gone. Idempotent. */
  kill(signal?: NodeJS.Signals): Promise<Ending>;
}

/** Starts `node entry`, and bundles an entry that ends in `.ts` first. Relative paths start at the root. */
export async function spawnNode(entry: string, options: NodeOptions = {}): Promise<NodeProcess> {
  const program = entry.endsWith(".ts") ? await bundled(entry) : resolve(repositoryRoot, entry);
  const { nodeOptions = RARELY_OPTIMIZED, args = [] } = options;
  const child = spawn(process.execPath, [...nodeOptions, program, ...args], {
    cwd: options.cwd ?? repositoryRoot,
    env: { ...process.env, ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  await once(child, "spawn");
  const running = watch(child);
  closeAtEnd(async () => void (await running.kill()));
  return running;
}

const MAIN = "dist/cli/main.js";

/** Starts the built command line, bundled like a TypeScript program. Needs `npm run build` first. */
export async function spawnBuilt(
  args: readonly string[],
  options: Omit<NodeOptions, "args"> = {},
): Promise<NodeProcess> {
  return spawnNode(await bundled(MAIN), { ...options, args });
}

/** Starts the built command line from its separate files, as installed. Costs three times as much. */
export function spawnInstalled(
  args: readonly string[],
  options: Omit<NodeOptions, "args"> = {},
): Promise<NodeProcess> {
  return spawnNode(MAIN, { ...options, args });
}

function watch(child: ChildProcessByStdio<null, Readable, Readable>): NodeProcess {
  const pid = child.pid ?? 0;
  const stdout = capture(child.stdout);
  const stderr = capture(child.stderr);
  const release = killWhenWeAreGone(pid);
  let ending: Ending | undefined;
  const closed = Promise.all([once(child, "close"), stdout.ended, stderr.ended]).then(async () => {
    ending = { code: child.exitCode, signal: child.signalCode };
    await release();
    return ending;
  });
  const said = () => [...stdout.lines, ...stderr.lines];
  return {
    pid,
    stdout: stdout.lines,
    stderr: stderr.lines,
    closed,
    get isRunning() {
      return child.exitCode === null && child.signalCode === null;
    },
    async waitForLine(pattern, { timeoutMs = 60_000 } = {}) {
      const matches = (line: string) =>
        typeof pattern === "string" ? line.includes(pattern) : pattern.test(line);
      const found = () => said().findIndex(matches) + 1;
      const what = `a line that matches ${pattern} from process ${pid}`;
      const index = await until(() => found() || (ending !== undefined && -1), { what, timeoutMs }).catch(
        (late: Error) => {
          throw new Error(`${late.message}\n${said().slice(-40).join("\n")}`);
        },
      );
      if (index > 0) return said()[index - 1] ?? "";
      throw new Error(`ended (${JSON.stringify(ending)}) without ${what}\n${said().slice(-40).join("\n")}`);
    },
    freeze: () => void child.kill("SIGSTOP"),
    thaw: () => void child.kill("SIGCONT"),
    async kill(signal = "SIGKILL") {
      child.kill(signal);
      // A frozen process receives signals other than SIGKILL only after SIGCONT.
      if (signal !== "SIGKILL") child.kill("SIGCONT");
      return closed;
    },
  };
}

function capture(stream: Readable): { lines: string[]; ended: Promise<unknown> } {
  const lines: string[] = [];
  const reader = createInterface({ input: stream });
  reader.on("line", (line) => lines.push(line));
  return { lines, ended: once(reader, "close") };
}
