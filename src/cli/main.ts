#!/usr/bin/env node
/** Where the command line begins: hands the process' own surroundings to the program. */
import { systemClock } from "../shared/clock.ts";
import { processEnvironment } from "../shared/config.ts";
import { messageOf } from "../shared/errors.ts";
import { packageVersion } from "../shared/version.ts";
import { createOutput } from "./output.ts";
import { runProgram } from "./program.ts";
import { runService } from "./service.ts";

const env = processEnvironment();
const output = createOutput(process.stdout, process.stderr, env);

await runService(
  (signal) =>
    runProgram(process.argv.slice(2), {
      env,
      cwd: process.cwd(),
      clock: systemClock,
      output,
      input: process.stdin,
      signal,
      version: packageVersion(),
    }),
  {
    onStopping: () => output.note("Stopping; a second signal ends it at once."),
    onUncaught: (error) =>
      output.note(
        `subagent-queue: ${messageOf(error)} (this is a defect; SUBAGENT_LOG_LEVEL=debug tells more)`,
      ),
  },
);
