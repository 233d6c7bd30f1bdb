/**
 * Pure: the bash program around an agent's command, the same in every runner.
 *
 * 1. A command runs only if it was read whole: if a worker dies while it sends the command, nothing runs.
 * 2. A command cannot end the program without its working directory being reported: the next command starts there.
 */

/** Last line of a command's text; shows that the text is whole. */
const END = "#end of the command";

/** Options of the shell program. */
export interface ShellOptions {
  /** Shell code to run before it reads the command: limits, descriptors to close. */
  readonly before: string;
  /** The descriptor that brings {@link commandText}. */
  readonly from: number;
  /** Redirection, such as `>&3`, for the line "ready" and, at the end, the working directory. */
  readonly report: string;
  /** Directory to start in if the command's own is gone; absent: the current one. */
  readonly fallback?: string;
}

/** Returns the program: it reports "ready", reads directory and command, runs it, and reports its last directory. */
export function shellProgram({ before, from, report, fallback }: ShellOptions): string {
  return `exec 2>&1
${before}
echo ready ${report}
IFS= read -r -d '' -u ${from} cwd
script="$(cat <&${from})"
exec ${from}<&-
case "$script" in *'${END}') script="\${script%'${END}'}" ;; *) exit 125 ;; esac
cd -- "$cwd" 2>/dev/null${fallback === undefined ? "" : ` || cd ${fallback}`}
trap 'pwd -P ${report}' EXIT
unset cwd
eval "$script"`;
}

/** Returns a command and its starting directory in the format that {@link shellProgram} reads. */
export function commandText(cwd: string, script: string): string {
  return `${cwd}\0${script}\n${END}`;
}

/** Parses the report of a program: whether it was ready, and its last directory. */
export function readReport(report: string): { ready: boolean; end: string } {
  const [first = "", ...rest] = report.split("\n");
  return { ready: first === "ready", end: rest.join("\n").replace(/\n$/, "") };
}

/** Quotes a text as one shell word. */
export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
