/** The type of a rule, and its access to tools: it returns the tool calls that it needs, then reads their results. Pure. */
import type { Step, ToolCall } from "../conversation.ts";

/** A rule's view of one request of the parent. */
export interface Task {
  text: string;
  /** Tool calls since the request, with their results. */
  steps: readonly Step[];
  /** Tools that may be called now. */
  offered: ReadonlySet<string>;
  /** Directories to search: the open ones, else the workspace. */
  directories: readonly string[];
}

/** The next turn: tool calls, or the final text. */
export type Draft = ToolCall[] | string;

/** A rule that answers one kind of request. `next` depends only on the task: with more results it continues. */
export interface Rule {
  matches(text: string): boolean;
  next(task: Task): Draft;
}

const FILE_NAME =
  /(?<![\w./@-])(?:\.{0,2}\/)?(?:[\w@+-][\w.@+-]*\/)*[\w@+-][\w.@+-]*\.[a-z][a-z0-9]{0,7}(?![\w/])/gi;

/** Requests the calls of offered tools, six a turn and none twice; then returns the result of `done` on their results. */
export function lookup(task: Task, calls: readonly ToolCall[], done: (steps: Step[]) => Draft): Draft {
  const keyOf = ({ name, input }: ToolCall) => `${name} ${JSON.stringify(Object.entries(input).sort())}`;
  const made = new Map(task.steps.map((step) => [keyOf(step), step]));
  const open = calls.filter((call) => !made.has(keyOf(call)) && task.offered.has(call.name));
  if (open.length > 0) return open.slice(0, 6);
  const steps = calls.flatMap((call) => made.get(keyOf(call)) ?? []);
  if (steps.length > 0 || calls.length === 0) return done(steps);
  return `I cannot do this now: \`${calls[0]?.name}\` may not be used.`;
}

/** Creates one call of `glob` or `grep` for each directory. */
export const searchIn = ({ directories }: Task, name: "glob" | "grep", pattern: string): ToolCall[] =>
  directories.map((path) => ({ name, input: { pattern, path } }));

/** Creates a `read_file` call. */
export const readFile = (path: string): ToolCall => ({ name: "read_file", input: { file_path: path } });

/** Returns the path of a `read_file` step. */
export const fileOf = (step: Step): string => String(step.input.file_path);

/** How an answer names files: relative to the only directory, which `within` names; as given if there are several. */
export function fileNames({ directories: [directory = ".", ...others] }: Task) {
  const isOnly = directory !== "." && others.length === 0;
  const start = isOnly ? directory.replace(/\/?$/, "/") : "";
  return { within: isOnly ? ` in ${directory}` : "", nameOf: (path: string) => path.replace(start, "") };
}

/** Returns the lines that searches found, without the tools' own notices. */
export function foundLines(steps: readonly Step[]): string[] {
  const lines = steps.filter((step) => !step.failed).flatMap((step) => step.output.split("\n"));
  return lines
    .map((line) => line.trim())
    .filter((line) => line !== "" && !/^no matches|^\[.*\s.*\]$/i.test(line));
}

/** Returns the failures and notices of partial searches, in parentheses after a space; "" if there are none. */
export function failures(steps: readonly Step[]): string {
  const told = steps.flatMap(({ name, failed, output }) => {
    const notices = name === "glob" || name === "grep" ? output.matchAll(/^ *\[(.* .*)\] *$/gm) : [];
    const said = failed ? [output.split("\n", 1)[0]] : Array.from(notices, ([, notice]) => notice);
    return said.map((each) => `${name}: ${each}`);
  });
  return told.length === 0 ? "" : ` (${told.join("; ")})`;
}

/** Formats a count with its noun: `1 file`, `2 files`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** Writes a list of at most a hundred lines below its head. */
export const listed = (head: string, lines: readonly string[]): string =>
  lines.length === 0 ? `${head}.` : [`${head}:`, ...lines.slice(0, 100)].join("\n");

/** Cuts a text to `maxChars` code points; a cut text ends in "…". */
export function shorten(text: string, maxChars: number): string {
  const points = [...text];
  return points.length <= maxChars ? text : `${points.slice(0, maxChars - 1).join("")}…`;
}

/** Returns the file names in a text, in their order, without duplicates and URLs. */
export function filesNamedIn(text: string): string[] {
  const found = text.replace(/\bhttps?:\/\/\S+/gi, " ").match(FILE_NAME) ?? [];
  return [...new Set(found.map((name) => name.replace(/^\.\//, "")))];
}
