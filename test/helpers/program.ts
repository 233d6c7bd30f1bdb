/**
 * The command line's program inside the test's own process: the verbs, sentences and exit codes of a real command without the
 * start of one, which costs half a second of CPU. For commands that are over at once; signals, logs and what outlives a
 * command are a real process' (`spawnBuilt`).
 */
import { Readable } from "node:stream";
import { runProgram } from "../../src/cli/program.ts";
import { createOutput, type OutputStream } from "../../src/cli/terminal/output.ts";
import { systemClock } from "../../src/shared/clock.ts";
import type { Environment } from "../../src/shared/config.ts";
import { packageVersion } from "../../src/shared/version.ts";

/** What a command has said, line by line, and its exit code. */
export interface Said {
  code: number;
  stdout: string[];
  stderr: string[];
}

/** Where a command runs, and as what. */
interface Surroundings {
  cwd: string;
  /** Variables on top of ours, `undefined` takes one away. */
  env: Readonly<Record<string, string | undefined>>;
  /** What a shell would call to have this program. */
  command?: string;
}

/** Runs a command to its end. */
export async function runHere(
  args: readonly string[],
  { cwd, env, command = "npx subagent-queue" }: Surroundings,
): Promise<Said> {
  const here: Environment = { ...process.env, ...env };
  const [stdout, stderr] = [recorder(), recorder()];
  const output = createOutput(stdout.stream, stderr.stream, here);
  const code = await runProgram(args, {
    env: here,
    cwd,
    clock: systemClock,
    output,
    input: Readable.from([]),
    signal: new AbortController().signal,
    stopInTwoSteps: () => new AbortController().signal,
    version: packageVersion(),
    command,
  });
  return { code, stdout: stdout.lines(), stderr: stderr.lines() };
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
