/** Answers what each Lua script is for, from the comment at its head. Pure. */
import type { Step } from "../conversation.ts";
import {
  complaints,
  counted,
  foundHits,
  foundPaths,
  globIn,
  grepIn,
  readFile,
  shorten,
  stepsOf,
} from "./lookup.ts";
import { answer, call, consult, type Rule } from "./rule.ts";

const MAX_SCRIPTS = 60;
const MAX_PURPOSE_CHARS = 240;

/** Finds the scripts, reads them several at a time, and gives one line for each. */
export const luaPurpose: Rule = {
  name: "lua-purpose",
  matches: (text) => /\blua\b/i.test(text) && /\bscripts?\b|\bfiles?\b/i.test(text),
  next(task) {
    const look = consult(task, globIn(task.places, "**/*.lua"));
    if (look.status === "pending") return call("Looking for Lua scripts.", look.calls);
    const scripts = foundPaths(look.steps);
    const reads = consult(task, scripts.slice(0, MAX_SCRIPTS).map(readFile));
    if (reads.status === "pending") {
      const left = scripts.length - stepsOf(task.steps, "read_file").length;
      return call(`Reading the headers of the Lua scripts, ${left} to go.`, reads.calls);
    }
    if (reads.steps.length > 0) return answer(report(scripts, reads.steps));
    const comments = consult(task, grepIn(task.places, "^\\s*--"));
    if (look.steps.length === 0 && comments.status === "pending") {
      return call("Looking for comments in Lua scripts.", comments.calls);
    }
    return answer(
      fromComments(comments.status === "done" ? comments.steps : []) ?? nothingRead(scripts, look.steps),
    );
  },
};

/** The first sentence of a script's head comment, or `undefined` when the script starts without one. */
export function headerOf(script: string): string | undefined {
  const words = headComment(script.replace(/^#![^\n]*\n/, "").trimStart());
  const start = words.findIndex((line) => /[\p{L}\p{N}]/u.test(line));
  if (start < 0) return undefined;
  const stop = words.findIndex(
    (line, index) => index > start && (line === "" || /^(?:KEYS|ARGV)\b/.test(line)),
  );
  const paragraph = words.slice(start, stop < 0 ? words.length : stop).join(" ");
  return shorten(/^.*?[.!?](?=\s|$)/.exec(paragraph)?.[0] ?? paragraph, MAX_PURPOSE_CHARS);
}

/** The comment a script starts with, a `--[[ … ]]` block or a run of `--` lines, without its marks. */
function headComment(script: string): string[] {
  const block = /^--\[(=*)\[([\s\S]*?)\]\1\]/.exec(script)?.[2];
  if (block !== undefined) return block.split("\n").map((line) => line.replace(/^\s*-{2,}/, "").trim());
  const lines = script.split("\n");
  const end = lines.findIndex((line) => !/^\s*--/.test(line));
  return lines.slice(0, end < 0 ? lines.length : end).map((line) => line.replace(/^\s*-{2,}/, "").trim());
}

function report(scripts: readonly string[], reads: readonly Step[]): string {
  const lines = reads.map((step) => {
    const path = String(step.input.file_path);
    if (step.failed) return `- ${path}: could not be read (${complaints([step])})`;
    return `- ${path}: ${headerOf(step.output) ?? "says nothing about its purpose, there is no comment at its head"}`;
  });
  const unread = scripts.length - reads.length;
  const rest = unread > 0 ? `\n${counted(unread, "more script")} not read.` : "";
  return `There ${scripts.length === 1 ? "is" : "are"} ${counted(scripts.length, "Lua script")}:\n${lines.join("\n")}${rest}`;
}

function fromComments(steps: readonly Step[]): string | undefined {
  const first = new Map<string, string>();
  for (const hit of foundHits(steps).filter(({ path }) => path.endsWith(".lua"))) {
    const words = hit.text.replace(/^\s*-{2,}/, "").trim();
    if (words !== "" && !first.has(hit.path)) first.set(hit.path, words);
  }
  if (first.size === 0) return undefined;
  const lines = [...first].map(([path, words]) => `- ${path}: ${shorten(words, MAX_PURPOSE_CHARS)}`);
  return `The first comments of ${counted(first.size, "Lua script")}:\n${lines.join("\n")}`;
}

function nothingRead(scripts: readonly string[], looked: readonly Step[]): string {
  if (scripts.length > 0)
    return `I found ${counted(scripts.length, "Lua script")} (${scripts.slice(0, 20).join(", ")}), but have not read any.`;
  if (looked.length === 0)
    return "I could not look for Lua scripts: no tool that searches files may be used now.";
  const trouble = complaints(looked);
  return `I found no Lua script here${trouble === "" ? "" : ` (${trouble})`}.`;
}
