/** What a rule is, and the one move all rules share: look something up, unless that has been done. Pure. */
import type { Step, ToolCall } from "../conversation.ts";

/** What the newest request looks like to a rule. */
export interface Task {
  /** The request's text. */
  text: string;
  /** What was looked up for it. */
  steps: readonly Step[];
  /** Tools that may be called. */
  offered: ReadonlySet<string>;
  /** Where to look: the absolute path in the text, else the open directories, else the workspace. */
  places: readonly string[];
}

/** The next assistant turn: tool calls (with a word about them), or the final text. */
export type Draft = { kind: "calls"; say: string; calls: ToolCall[] } | { kind: "answer"; text: string };

/** One way of answering. The first rule that matches answers every turn of the request. */
export interface Rule {
  /** Name for people. */
  name: string;
  /** True when the rule knows what to do with this text. */
  matches(text: string): boolean;
  /** The next turn, from the task alone: asked again with more results, it goes on where it was. */
  next(task: Task): Draft;
}

/** What `consult` found: calls that are still to be made, or the steps that answer them. */
export type Consulted = { status: "pending"; calls: ToolCall[] } | { status: "done"; steps: Step[] };

/** How many tool calls a rule makes in one turn. */
export const PARALLEL_CALLS = 6;

/** Asks for the given calls as far as their tools are offered, at most `PARALLEL_CALLS` a turn, none of them twice. */
export function consult(task: Task, calls: readonly ToolCall[]): Consulted {
  const done = new Map(task.steps.map((step) => [keyOf(step), step]));
  const open = calls.filter((call) => !done.has(keyOf(call)) && task.offered.has(call.name));
  if (open.length > 0) return { status: "pending", calls: open.slice(0, PARALLEL_CALLS) };
  return { status: "done", steps: calls.flatMap((call) => done.get(keyOf(call)) ?? []) };
}

/** A draft that ends the turn with text. */
export const answer = (text: string): Draft => ({ kind: "answer", text });

/** A draft that makes tool calls. */
export const call = (say: string, calls: ToolCall[]): Draft => ({ kind: "calls", say, calls });

function keyOf({ name, input }: ToolCall): string {
  return `${name} ${JSON.stringify(Object.entries(input).sort(([a], [b]) => (a < b ? -1 : 1)))}`;
}
