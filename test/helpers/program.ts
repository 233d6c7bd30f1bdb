/**
 * The command line's program inside the test's own process: the verbs, sentences, exit codes and the two steps of Ctrl-C of a
 * real command without the start of one, which costs half a second of CPU. Logs, and what outlives a command, are a real
 * process' (`spawnBuilt`).
 */
import { Readable } from "node:stream";
import type { ProgramContext as CliContext } from "../../src/cli/command.ts";
import { runProgram } from "../../src/cli/program.ts";
import { pasteable } from "../../src/cli/shell-command.ts";
import { createOutput, type OutputStream } from "../../src/cli/terminal/output.ts";
import { type Clock, systemClock } from "../../src/shared/clock.ts";
import type { Environment } from "../../src/shared/config.ts";
import { packageVersion } from "../../src/shared/version.ts";
import { closeAtEnd } from "./cleanup.ts";
import { until } from "./until.ts";

/** What a command has said, line by line, and its exit code. */
export interface Said {
  code: number;
  stdout: string[];
  stderr: string[];
}

/** Where a command runs, and as what. */
interface ProgramContext {
  cwd: string;
  /** Variables on top of ours, `undefined` takes one away. */
  env: Readonly<Record<string, string | undefined>>;
  /** What a shell would call to have this program. */
  command?: string;
  /** Default: the machine's. */
  clock?: Clock;
  /** Standard input; default: nothing comes. */
  input?: CliContext["input"];
  /** Standard output, then not recorded; default: one whose reader stays. */
  stdout?: OutputStream;
}

/** A command that is under way in this process. */
export interface CommandHere {
  /** Lines so far, without their line ends. */
  readonly stdout: readonly string[];
  readonly stderr: readonly string[];
  /** Resolves when the command is over. */
  readonly closed: Promise<Said>;
  /** The first line of either stream that matches, also one that is long past. Rejects when the command ends first. */
  waitForLine(pattern: RegExp | string): Promise<string>;
  /** Does what the signal does to a command, whose process lives on; resolves when the command is over. */
  kill(signal: "SIGINT" | "SIGTERM"): Promise<Said>;
}

/** Runs a command to its end. */
export function runHere(args: readonly string[], context: ProgramContext): Promise<Said> {
  return carryOut(args, context).closed;
}

/** Starts a command that stays up; it is told to stop at the end of its test (or file). */
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
