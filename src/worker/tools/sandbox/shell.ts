/**
 * Pure: the bash program around an agent's command, the same in every runner.
 *
 * 1. The command is run only whole: a worker that dies while it hands the command over runs nothing.
 * 2. It cannot end the program without its end being told: where the shell stands then is the next command's start.
 */

/** Ends the text of a command, so that a part of it is told from the whole. */
const END = "#end of the command";

/** Of what the program is made. */
export interface ShellOptions {
  /** What it does before it reads the command: limits, descriptors to close. */
  readonly before: string;
  /** The descriptor that brings {@link commandText}. */
  readonly from: number;
  /** Where it says "ready", and in the end its directory: a redirection such as `>&3`. */
  readonly report: string;
  /** Where it starts when the command's own directory is gone; absent: where it stands. */
  readonly fallback?: string;
}

/** Says that it is ready, reads the starting directory and the command, runs it, and tells at the end where it stands. */
export function shellProgram({ before, from, report, fallback }: ShellOptions): string {
  return `exec 2>&1
${before}
echo ready ${report}
IFS= read -r -u ${from} cwd
script="$(cat <&${from})"
exec ${from}<&-
case "$script" in *'${END}') script="\${script%'${END}'}" ;; *) exit 125 ;; esac
cd -- "$cwd" 2>/dev/null${fallback === undefined ? "" : ` || cd ${fallback}`}
trap 'pwd -P ${report}' EXIT
unset cwd
eval "$script"`;
}

/** A command and where it starts, as {@link shellProgram} reads them. */
export function commandText(cwd: string, script: string): string {
  return `${cwd}\n${script}\n${END}`;
}

/** What a program reported: whether it was ready, and where it ended. */
export function readReport(report: string): { ready: boolean; end: string } {
  const [first = "", ...rest] = report.split("\n");
  return { ready: first === "ready", end: rest.join("\n").trim() };
}

/** A text as one word of a shell. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
