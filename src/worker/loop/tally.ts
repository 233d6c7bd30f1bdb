/**
 * What a run has come to: counters, cost and summary, and whether the model makes the same call again and again. Moved on by
 * one entry, never computed from the log.
 */
import {
  addUsage,
  isToolUse,
  textOf,
  totalTokens,
  type Usage,
  ZERO_USAGE,
} from "../../shared/protocol/content.ts";
import { NO_SUMMARY } from "../../shared/protocol/reply.ts";
import type { LoggedAnswer } from "./log.ts";

/** Names under which calls are counted: a model can invent any number, and they are written with every commit. */
const MOST_NAMES = 100;
const OTHER_NAMES = "(others)";

/** The counters of one run. */
export class Tally {
  /** Tokens and money, calls that were paid for in vain included. */
  usage: Usage = ZERO_USAGE;
  tokens = 0;
  costUsd = 0;
  /** Tool calls that began or were answered, refused and denied ones left out; names are the model's, `constructor` included. */
  readonly calls = new Map<string, number>();
  toolCalls = 0;
  /** Calls by tool that were answered without an error. */
  readonly succeeded = new Map<string, number>();
  /** The model of the last answer. */
  model: string | undefined;
  /** The last text of the run that is not blank, whole; "" when there is none. */
  text = "";
  /** The message that says it, where a script can read it there; else 0. */
  said = 0;
  /** The longest text before the last one, and whether the last one came without a tool call. */
  #earlier = "";
  #isLastWord = false;
  #summary: Summary | undefined;

  /** Tokens and money of one call. */
  spend(usage: Usage, costUsd: number): void {
    this.usage = addUsage(this.usage, usage);
    this.tokens += totalTokens(usage);
    this.costUsd += costUsd;
  }

  /** An answer of the model. */
  answer({ message, usage, costUsd, model, content, contentJson }: LoggedAnswer & { message: number }): void {
    this.spend(usage, costUsd);
    this.model = model;
    const text = textOf(content);
    if (text.trim() === "") return;
    if (this.text.length > this.#earlier.length) this.#earlier = this.text;
    this.text = text;
    this.said = isReadableByScripts(contentJson) ? message : 0;
    this.#isLastWord = !content.some(isToolUse);
    this.#summary = undefined;
  }

  /** A tool call that began or was answered for the first time. */
  call(name: string): void {
    const counted = this.calls.has(name) || this.calls.size < MOST_NAMES ? name : OTHER_NAMES;
    this.calls.set(counted, (this.calls.get(counted) ?? 0) + 1);
    this.toolCalls += 1;
  }

  /** A tool call that had its mark and was not made after all. */
  uncall(name: string): void {
    const counted = this.calls.has(name) ? name : OTHER_NAMES;
    const left = (this.calls.get(counted) ?? 1) - 1;
    if (left > 0) this.calls.set(counted, left);
    else this.calls.delete(counted);
    this.toolCalls -= 1;
  }

  /** A tool call that was answered without an error. */
  succeed(name: string): void {
    this.succeeded.set(name, (this.succeeded.get(name) ?? 0) + 1);
  }

  /** {@link text}, and behind a last word, marked, an earlier text beside which it is short: "the report is above". */
  get report(): string {
    const [last, earlier] = [this.text.trim(), this.#earlier.trim()];
    const reportMinChars = Math.max(REPORT_MIN_CHARS, last.length * REPORT_RATIO);
    const isShort = last.length <= POINTER_MAX_CHARS && earlier.length >= reportMinChars;
    return this.#isLastWord && isShort ? `${last}\n\n${EARLIER_MARK}\n\n${earlier}` : this.text;
  }

  /** {@link report}, cut to size. */
  get summary(): Summary {
    this.#summary ??= summarise(this.report);
    return this.#summary;
  }
}

/** Redis' decoder reads JSON of at most so many levels; those of an entry around its content are counted in. */
const SCRIPT_LEVELS = 990;

/** Whether `json` is sure not to be too deep for a script: a level takes a bracket, and a bracket that closes it. */
function isReadableByScripts(json: string): boolean {
  return json.length < 2 * SCRIPT_LEVELS || json.split(/[\]}]/, SCRIPT_LEVELS + 1).length <= SCRIPT_LEVELS;
}

/** A last text of at most so many UTF-16 code units may point to an earlier one of at least so many, and so many times as long. */
const POINTER_MAX_CHARS = 200;
const REPORT_MIN_CHARS = 400;
const REPORT_RATIO = 4;
/** Stands between a short last text and the earlier one. */
const EARLIER_MARK = "[an earlier message of this run, longer than its last one:]";

// What the parent gets to read: the last non-empty text of a run, cut to a size that does not flood its context.

/** Most code points of a summary, the marker included. */
export const SUMMARY_MAX_CHARS = 5_000;

/** A text of the right size, and whether something was left out. */
export interface Summary {
  summary: string;
  truncated: boolean;
}

/** `text` trimmed, or {@link NO_SUMMARY}; above `maxChars` code points its head and tail around a marker. */
export function summarise(text: string, maxChars: number = SUMMARY_MAX_CHARS): Summary {
  const trimmed = text.trim();
  if (trimmed === "") return { summary: NO_SUMMARY, truncated: false };
  const points = trimmed.length <= maxChars ? undefined : [...trimmed];
  if (!points || points.length <= maxChars) return { summary: trimmed, truncated: false };
  const marker = `\n[… shortened from ${points.length} characters; the full text is kept …]\n`;
  const room = Math.max(0, maxChars - [...marker].length);
  const head = Math.ceil(room * 0.7);
  const tail = room - head;
  const kept = points.slice(0, head).join("") + marker + (tail > 0 ? points.slice(-tail).join("") : "");
  return { summary: kept, truncated: true };
}

/** After this many identical consecutive calls the model is told. */
export const REPETITION_NOTICE = 3;
/** This many identical consecutive calls end the run; the last one is not executed any more. */
export const REPETITION_LIMIT = 5;

/** Takes the calls of one run one after the other. */
export class Repetition {
  #previous: { name: string; input: unknown } | undefined;
  #count = 0;
  #isOver = false;

  /** Whether some call of the run completed {@link REPETITION_LIMIT} identical ones. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** How many identical calls in a row `call` completes. */
  count(call: { name: string; input: unknown }): number {
    const isSame = this.#previous?.name === call.name && isSameJson(this.#previous.input, call.input);
    this.#count = isSame ? this.#count + 1 : 1;
    this.#previous = call;
    this.#isOver ||= this.#count >= REPETITION_LIMIT;
    return this.#count;
  }
}

/** Whether two JSON values are equal, whatever the order of their keys. Without recursion: nesting has no limit. */
function isSameJson(a: unknown, b: unknown): boolean {
  const pairs: [unknown, unknown][] = [[a, b]];
  for (let pair = pairs.pop(); pair; pair = pairs.pop()) {
    const [left, right] = pair;
    if (left === right) continue;
    if (!isContainer(left) || !isContainer(right) || Array.isArray(left) !== Array.isArray(right))
      return false;
    const keys = Object.keys(left);
    if (keys.length !== Object.keys(right).length) return false;
    for (const key of keys) {
      if (!Object.hasOwn(right, key)) return false;
      pairs.push([left[key], right[key]]);
    }
  }
  return true;
}

function isContainer(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
