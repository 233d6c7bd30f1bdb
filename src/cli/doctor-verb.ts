/** The grammar of `doctor`. */
import type { Command } from "commander";
import { openCommand, type Surroundings } from "./command.ts";
import type { DoctorFlags } from "./doctor.ts";
import { HELP } from "./help.ts";

/** Adds the verb; `done` takes the exit code. It is loaded when it is called. */
export function addDoctor(program: Command, surroundings: Surroundings, done: (code: number) => void): void {
  program
    .command("doctor")
    .description("examine the live installation of REDIS_URL: what is stuck, leaked, lost or misconfigured")
    .option("--fix", "repair what is safe", false)
    .option("--measure", "call the model backend: does working side by side pay?", false)
    .option("--json", "the report as JSON on standard output, and nothing else there", false)
    .addHelpText("after", HELP.doctor)
    .action(async (flags: DoctorFlags) => {
      const { doctor } = await import("./doctor.ts");
      done(await doctor(openCommand(surroundings, "warn"), flags));
    });
}
