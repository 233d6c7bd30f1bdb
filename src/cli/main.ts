#!/usr/bin/env node
/** Entry point of the command line: passes arguments, environment and streams of the process to the program. */
import { systemClock } from "../shared/clock.ts";
import { processEnvironment } from "../shared/config.ts";
import { messageOf } from "../shared/errors.ts";
import { packageVersion } from "../shared/package.ts";
import { EXIT } from "./command.ts";
import { runService } from "./process.ts";
import { runProgram } from "./program.ts";
import { commandFor, pasteable } from "./shell-command.ts";
import { createOutput } from "./terminal/output.ts";

const STOPPING = "Stopping; a second signal ends it at once.";

const env = processEnvironment();
const [, script = ""] = process.argv;
const cwd = currentDirectory();
const command = commandFor({ script, cwd, searchPath: env.PATH });
const output = createOutput(process.stdout, process.stderr, env, (line) => pasteable(line, command));

await runService(
  (signal, stopInTwoSteps) =>
    runProgram(process.argv.slice(2), {
      env,
      cwd,
      clock: systemClock,
      output,
      input: process.stdin,
      signal,
      stopInTwoSteps,
      version: packageVersion(),
      command,
    }),
  {
    monotonicMs: () => systemClock.monotonicMs(),
    // If stderr is not a terminal it is a log: a worker writes only JSON lines to it.
    onStopping: () => {
      if (output.isLive) output.note(STOPPING);
    },
    onUncaught: (error) =>
      output.note(
        `subagent-queue: ${messageOf(error)} (this is a defect; SUBAGENT_LOG_LEVEL=debug tells more)`,
      ),
  },
);

/** Returns the current directory; ends the process with a sentence if it was deleted. */
function currentDirectory(): string {
  try {
    return process.cwd();
  } catch (error) {
    console.error(`subagent-queue: There is no current directory (${messageOf(error)}): go to another one.`);
    process.exit(EXIT.environment);
  }
}
