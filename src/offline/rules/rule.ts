/** What a rule is, and how it looks things up: it names the tool calls it needs and reads their results. Pure. */
import type { Step, ToolCall } from "../conversation.ts";

/** One request of the parent as a rule sees it. */
export interface Task {
  text: string;
  /** Tool calls made since the request, with their results. */
  steps: readonly Step[];
  /** Tools that may be called now. */
  offered: ReadonlySet<string>;
  /** Where to look: the open directories, else the workspace. */
  places: readonly string[];
}

/** The next turn: tool calls, or the final text. */
export type Draft = ToolCall[] | string;

/** One way of answering. `next` depends on the task alone: asked again with more results, it continues. */
export interface Rule {
  matches(text: string): boolean;
  next(task: Task): Draft;
}

const FILE_NAME =
  /(?<![\w./@-])(?:\.{0,2}\/)?(?:[\w@+-][\w.@+-]*\/)*[\w@+-][\w.@+-]*\.[a-z][a-z0-9]{0,7}(?![\w/])/gi;

const SEARCHES: ReadonlySet<string> = new Set(["glob", "grep"]);

/** Makes the calls whose tools are offered, six a turn and none twice; then `done` decides on their results. */
export function lookUp(task: Task, calls: readonly ToolCall[], done: (steps: Step[]) => Draft): Draft {
  const keyOf = ({ name, input }: ToolCall) => `${name} ${JSON.stringify(Object.entries(input).sort())}`;
  const made = new Map(task.steps.map((step) => [keyOf(step), step]));
  const open = calls.filter((call) => !made.has(keyOf(call)) && task.offered.has(call.name));
  if (open.length > 0) return open.slice(0, 6);
  const steps = calls.flatMap((call) => made.get(keyOf(call)) ?? []);
  if (steps.length > 0 || calls.length === 0) return done(steps);
  return `I cannot do this now: \`${calls[0]?.name}\` may not be used.`;
}

/** One call of `glob` or `grep` for each place. */
export const searchIn = (name: "glob" | "grep", places: readonly string[], pattern: string): ToolCall[] =>
  places.map((path) => ({ name, input: { pattern, path } }));

/** A `read_file` call. */
export const readFile = (path: string): ToolCall => ({ name: "read_file", input: { file_path: path } });

/** The file that a `read_file` step read. */
export const fileOf = (step: Step): string => String(step.input.file_path);

/** The lines that searches found, without what the tools say of them. */
export function foundLines(steps: readonly Step[]): string[] {
  const lines = steps.filter((step) => !step.failed).flatMap((step) => step.output.split("\n"));
  return lines
    .map((line) => line.trim())
    .filter((line) => line !== "" && !/^no matches|^\[.*\s.*\]$/i.test(line));
}

/** What failed, or was searched in part, in parentheses, with a space in front; "" when nothing did. */
export function failures(steps: readonly Step[]): string {
  const told = steps.flatMap(({ name, failed, output }) => {
    const notices = SEARCHES.has(name) ? output.matchAll(/^ *\[(.* .*)\] *$/gm) : [];
    const said = failed ? [output.split("\n", 1)[0]] : Array.from(notices, ([, notice]) => notice);
    return said.map((each) => `${name}: ${each}`);
  });
  return told.length === 0 ? "" : ` (${told.join("; ")})`;
}

/** `1 file`, `2 files`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** At most `maxChars` code points; a cut ends in "…". */
export function shorten(text: string, maxChars: number): string {
  const points = [...text];
  return points.length <= maxChars ? text : `${points.slice(0, maxChars - 1).join("")}…`;
}

/** The file names in a text, in their order, without duplicates and without URLs. */
export function filesNamedIn(text: string): string[] {
  const found = text.replace(/\bhttps?:\/\/\S+/gi, " ").match(FILE_NAME) ?? [];
  return [...new Set(found.map((name) => name.replace(/^\.\//, "")))];
}
