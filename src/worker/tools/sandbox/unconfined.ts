/**
 * Runs commands with the worker's own rights, for operators who confine the worker itself. What a command leaves behind in
 * another session outlives it here.
 */
import type { Clock } from "../../../shared/clock.ts";
import { messageOf } from "../../../shared/errors.ts";
import { ToolFailure } from "../tool.ts";
import { runProcess } from "./process.ts";
import type { Runner } from "./runner.ts";

/** Reads the starting directory and the script, and tells at the end where it stands. */
const SHELL = `exec 2>&1
IFS= read -r -u 4 cwd
script="$(cat <&4)"
exec 4<&-
cd -- "$cwd" 2>/dev/null
trap 'pwd -P >&3' EXIT
unset cwd
eval "$script"`;

/** A runner without walls. The environment is scrubbed all the same: the worker's keys stand there. */
export function createUnconfined(clock: Clock): Runner {
  return {
    kind: "unconfined",
    async run({ script, workspace, cwd, timeoutMs, signal }) {
      try {
        const { report, ...outcome } = await runProcess({
          file: "/bin/bash",
          args: ["--noprofile", "--norc", "-c", SHELL],
          env: {
            PATH: "/usr/local/bin:/usr/bin:/bin",
            HOME: workspace.directory,
            LANG: "C.UTF-8",
            TERM: "dumb",
          },
          cwd: workspace.directory,
          inputs: [`${cwd ?? workspace.directory}\n${script}`],
          timeoutMs,
          signal,
          group: true,
          clock,
        });
        const end = report.trim();
        return { ...outcome, ...(end !== "" && { cwd: end }), withheld: [] };
      } catch (error) {
        throw new ToolFailure(`The command cannot be started (${messageOf(error)}); go on without bash.`);
      }
    },
  };
}
