/** The tool calls that rules make, and how their results are read. Pure. */
import type { Step, ToolCall } from "../conversation.ts";

/** One `glob` call a place; a place that looks like a file stands for its directory. */
export function globIn(places: readonly string[], pattern: string): ToolCall[] {
  return places.map((place) => ({ name: "glob", input: { pattern, path: directoryOf(place) } }));
}

/** One `grep` call a place. */
export function grepIn(places: readonly string[], pattern: string): ToolCall[] {
  return places.map((path) => ({ name: "grep", input: { pattern, path } }));
}

/** A `read_file` call. */
export const readFile = (path: string): ToolCall => ({ name: "read_file", input: { file_path: path } });

/** Joins a directory and a relative path the way the tools spell it: no `./` in front. */
export const within = (place: string, path: string): string =>
  place === "." ? path : `${place.replace(/\/$/, "")}/${path}`;

/** The steps of one tool. */
export const stepsOf = (steps: readonly Step[], name: string): Step[] =>
  steps.filter((step) => step.name === name);

/** The paths that `glob` steps found, sorted, without duplicates. */
export function foundPaths(steps: readonly Step[]): string[] {
  return [
    ...new Set(
      linesOf(stepsOf(steps, "glob"))
        .map((line) => line.trim())
        .filter(isPath),
    ),
  ].sort();
}

/** A line that `grep` found. */
export interface Hit {
  path: string;
  line: number;
  text: string;
}

/** The lines that `grep` steps found. */
export function foundHits(steps: readonly Step[]): Hit[] {
  return linesOf(stepsOf(steps, "grep")).flatMap((line) => {
    const [, path, number, text] = /^(.+?):(\d+):(.*)$/.exec(line) ?? [];
    return path === undefined ? [] : [{ path, line: Number(number), text: text ?? "" }];
  });
}

/** True when a tool noted, in brackets on a line of its own, that its result is not everything: counts are lower bounds then. */
export function wasCut(steps: readonly Step[]): boolean {
  return linesOf(steps).some((line) => /^\[.*\s.*\]$/.test(line.trim()) && !/:\d+:/.test(line));
}

/** What failed, as one sentence a tool; `""` when nothing did. */
export function complaints(steps: readonly Step[]): string {
  const failed = steps.filter((step) => step.failed);
  return failed.map((step) => `${step.name} failed: ${step.output.trim().split("\n")[0] ?? ""}`).join("; ");
}

/** `1 file`, `2 files`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;

/** Cuts a text at a number of code points and marks the cut. */
export function shorten(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const points = [...text];
  return points.length <= maxChars ? text : `${points.slice(0, maxChars - 1).join("")}…`;
}

function linesOf(steps: readonly Step[]): string[] {
  return steps.filter((step) => !step.failed).flatMap((step) => step.output.split("\n"));
}

function directoryOf(path: string): string {
  return /\/[^/]*\.[a-zA-Z0-9]{1,5}$/.test(path) ? path.slice(0, path.lastIndexOf("/")) || "/" : path;
}

function isPath(line: string): boolean {
  return line !== "" && !/^no matches|^\(no output\)|^(?:\.\.\.|…)|^[[(].*\s.*[\])]$/i.test(line);
}
