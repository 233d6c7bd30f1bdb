/**
 * Runs commands with the worker's own rights, for operators who confine the worker itself. Here, processes that a command
 * starts in another session outlive it.
 */
import type { Clock } from "../../../shared/clock.ts";
import { messageOf, ToolFailure } from "../../../shared/errors.ts";
import { COMMAND, REPORT, runProcess } from "./process.ts";
import type { Runner } from "./runner.ts";
import { commandText, readReport, shellProgram } from "./shell.ts";

/** The program that runs the commands. */
export const BASH = "/bin/bash";
const SHELL = shellProgram({ before: "", from: COMMAND, report: `>&${REPORT}` });

/** Creates a runner without protection. The environment is still minimal, because the worker's has keys. */
export function createUnconfined(clock: Clock): Runner {
  return {
    kind: "none",
    protections: [],
    async run({ script, workspace, cwd, timeoutMs, signal }) {
      try {
        const { report, ...outcome } = await runProcess({
          file: BASH,
          args: ["--noprofile", "--norc", "-c", SHELL],
          env: {
            PATH: "/usr/local/bin:/usr/bin:/bin",
            HOME: workspace.directory,
            LANG: "C.UTF-8",
            TERM: "dumb",
          },
          cwd: workspace.directory,
          command: commandText(cwd ?? workspace.directory, script),
          inputs: [],
          timeoutMs,
          signal,
          clock,
        });
        const { end } = readReport(report);
        return { ...outcome, ...(end !== "" && { cwd: end }), withheld: [] };
      } catch (error) {
        throw new ToolFailure(`The command cannot be started (${messageOf(error)}); go on without bash.`);
      }
    },
  };
}
