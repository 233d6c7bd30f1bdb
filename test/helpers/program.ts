/**
 * Runs the command line's program inside the test's process, with the verbs, sentences, exit codes and two-step Ctrl-C of a
 * real command. This saves the start of a process, which costs 0.5 s of CPU. To test logs, or effects that outlive a command,
 * use a real process (`spawnBuilt`).
 */
import { Readable } from "node:stream";
import type { ProgramContext as CliContext } from "../../src/cli/command.ts";
import { runProgram } from "../../src/cli/program.ts";
import { pasteable } from "../../src/cli/shell-command.ts";
import { createOutput, type OutputStream } from "../../src/cli/terminal/output.ts";
import { type Clock, systemClock } from "../../src/shared/clock.ts";
import type { Environment } from "../../src/shared/config.ts";
import { packageVersion } from "../../src/shared/package.ts";
import { closeAtEnd } from "./cleanup.ts";
import { until } from "./until.ts";

/** A command's output lines and exit code. */
export interface Said {
  code: number;
  stdout: string[];
  stderr: string[];
}

/** Working directory, environment and streams of a command. */
interface ProgramContext {
  cwd: string;
  /** Environment variables in addition to this process's; `undefined` removes one. */
  env: Readonly<Record<string, string | undefined>>;
  /** Shell command of this program; default: `npx subagent-queue`. */
  command?: string;
  /** Default: the system clock. */
  clock?: Clock;
  /** Standard input; default: empty. */
  input?: CliContext["input"];
  /** Replaces standard output, which is then not recorded; default: a recorded stream that is never closed. */
  stdout?: OutputStream;
}

/** A command that runs in this process. */
export interface CommandHere {
  /** Lines so far, without line ends. */
  readonly stdout: readonly string[];
  readonly stderr: readonly string[];
  /** Resolves when the command has ended. */
  readonly closed: Promise<Said>;
  /** Resolves to the first matching line of either stream, past lines included. Rejects if the command ends before. */
  waitForLine(pattern: RegExp | string): Promise<string>;
  /** Stops the command as the signal would, without ending this process. Resolves when the command has ended. */
  kill(signal: "SIGINT" | "SIGTERM"): Promise<Said>;
}

/** Runs a command to its end. */
export function runHere(args: readonly string[], context: ProgramContext): Promise<Said> {
  return carryOut(args, context).closed;
}

/** Starts a long-running command; the end of the test (or file) stops it. */
export function startHere(args: readonly string[], context: ProgramContext): CommandHere {
  const command = carryOut(args, context);
  closeAtEnd(async () => void (await command.kill("SIGTERM")));
  return command;
}

function carryOut(
  args: readonly string[],
  { cwd, env, command = "npx subagent-queue", clock = systemClock, ...streams }: ProgramContext,
): CommandHere {
  const here: Environment = Object.fromEntries(
    Object.entries({ ...process.env, ...env }).filter(([, value]) => value !== undefined),
  );
  const [stdout, stderr] = [recorder(), recorder()];
  const [stopping, second] = [new AbortController(), new AbortController()];
  let hasTwoSteps = false;
  let isOver = false;
  const closed = runProgram(args, {
    env: here,
    cwd,
    clock,
    output: createOutput(streams.stdout ?? stdout.stream, stderr.stream, here, (line) =>
      pasteable(line, command),
    ),
    input: streams.input ?? Readable.from([]),
    signal: stopping.signal,
    stopInTwoSteps: () => {
      hasTwoSteps = true;
      return second.signal;
    },
    version: packageVersion(),
    command,
  }).then((code) => {
    isOver = true;
    return { code, stdout: stdout.lines(), stderr: stderr.lines() };
  });
  return {
    get stdout() {
      return stdout.lines();
    },
    get stderr() {
      return stderr.lines();
    },
    closed,
    async waitForLine(pattern) {
      const matches = (line: string) =>
        typeof pattern === "string" ? line.includes(pattern) : pattern.test(line);
      const found = () => [...stdout.lines(), ...stderr.lines()].find(matches);
      const line = await until(() => found() ?? isOver, { what: `a line that matches ${pattern}` });
      if (typeof line === "string") return line;
      const said = [...stdout.lines(), ...stderr.lines()].join("\n");
      throw new Error(`the command ended without a line that matches ${pattern}\n${said}`);
    },
    kill(signal) {
      const isFirst = !stopping.signal.aborted;
      stopping.abort();
      if (!isFirst || !hasTwoSteps || signal !== "SIGINT") second.abort();
      return closed;
    },
  };
}

function recorder(): { stream: OutputStream; lines(): string[] } {
  let text = "";
  const write: OutputStream["write"] = (more, done) => {
    text += more;
    done?.();
  };
  return {
    stream: { write, on: () => {} },
    lines: () => (text === "" ? [] : text.replace(/\n$/, "").split("\n")),
  };
}
