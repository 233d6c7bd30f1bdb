/** The grammar of the verbs for operators: each acts on the whole installation of REDIS_URL. */
import type { Command } from "commander";
import { openCommand, type Surroundings } from "./command.ts";
import type { DoctorFlags } from "./doctor.ts";
import { HELP } from "./help.ts";
import type { PauseFlags, ResumeFlags } from "./pause.ts";

/** Adds the verbs; `done` takes the exit code. Each is loaded when it is called. */
export function addOperatorVerbs(
  program: Command,
  surroundings: Surroundings,
  done: (code: number) => void,
): void {
  program
    .command("pause")
    .description("stop spending now: no worker begins a model call or takes a run until resume")
    .option("--reason <text>", "for whoever wonders why nothing happens")
    .option("--json", "the result as JSON", false)
    .addHelpText("after", HELP.pause)
    .action(async (flags: PauseFlags) => {
      const { pause } = await import("./pause.ts");
      done(await pause(openCommand(surroundings, "warn"), flags));
    });
  program
    .command("resume")
    .description("go on after pause, at once")
    .option("--json", "the result as JSON", false)
    .addHelpText("after", HELP.resume)
    .action(async (flags: ResumeFlags) => {
      const { resume } = await import("./pause.ts");
      done(await resume(openCommand(surroundings, "warn"), flags));
    });
  program
    .command("doctor")
    .description("examine the live installation: what is stuck, leaked, lost or misconfigured")
    .option("--fix", "repair what is safe", false)
    .option("--measure", "call the model backend: does working side by side pay?", false)
    .option("--json", "the report as JSON on standard output, and nothing else there", false)
    .addHelpText("after", HELP.doctor)
    .action(async (flags: DoctorFlags) => {
      const { doctor } = await import("./doctor.ts");
      done(await doctor(openCommand(surroundings, "warn"), flags));
    });
}
