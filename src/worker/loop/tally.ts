/**
 * Totals of a run: counters, cost and summary, and whether the model repeats the same call. Each entry updates them; they
 * are never computed from the log.
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

/** Maximum number of names under which calls are counted: a model can invent any number, and every commit writes them. */
const MOST_NAMES = 100;
const OTHER_NAMES = "(others)";

/** The counters of one run. */
export class Tally {
  /** Tokens and money, including paid calls without a usable answer. */
  usage: Usage = ZERO_USAGE;
  tokens = 0;
  costUsd = 0;
  /** Tool calls that began or were answered, but no refused or denied ones; the model chooses names, even `constructor`. */
  readonly calls = new Map<string, number>();
  toolCalls = 0;
  /** Calls answered without an error, by tool. */
  readonly succeeded = new Map<string, number>();
  /** The model of the last answer. */
  model: string | undefined;
  /** Last text of the run that is not blank, whole; "" if there is none. */
  text = "";
  /** Number of its message if a script can read the text there, else 0. */
  said = 0;
  /** The longest text before the last one, and whether the last one came without a tool call. */
  #earlier = "";
  #isLastWord = false;
  #summary: Summary | undefined;

  /** Adds the tokens and money of one call. */
  spend(usage: Usage, costUsd: number): void {
    this.usage = addUsage(this.usage, usage);
    this.tokens += totalTokens(usage);
    this.costUsd += costUsd;
  }

  /** Adds an answer of the model. */
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

  /** Counts a tool call that began or was answered for the first time. */
  call(name: string): void {
    const counted = this.calls.has(name) || this.calls.size < MOST_NAMES ? name : OTHER_NAMES;
    this.calls.set(counted, (this.calls.get(counted) ?? 0) + 1);
    this.toolCalls += 1;
  }

  /** Takes back the count of a tool call that had its mark but was not made. */
  uncall(name: string): void {
    const counted = this.calls.has(name) ? name : OTHER_NAMES;
    const left = (this.calls.get(counted) ?? 1) - 1;
    if (left > 0) this.calls.set(counted, left);
    else this.calls.delete(counted);
    this.toolCalls -= 1;
  }

  /** Counts a tool call that was answered without an error. */
  succeed(name: string): void {
    this.succeeded.set(name, (this.succeeded.get(name) ?? 0) + 1);
  }

  /** {@link text}. If it is a short last word ("the report is above"), a marker and the much longer earlier text follow. */
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

/** Maximum levels of JSON that Redis' decoder reads, less those of an entry around its content. */
const SCRIPT_LEVELS = 990;

/** Returns true if `json` is surely not too deep for a script: a level takes an opening and a closing bracket. */
function isReadableByScripts(json: string): boolean {
  return json.length < 2 * SCRIPT_LEVELS || json.split(/[\]}]/, SCRIPT_LEVELS + 1).length <= SCRIPT_LEVELS;
}

/** Maximum length of a last text that points to an earlier one, minimum length of that one (UTF-16 code units), and their ratio. */
const POINTER_MAX_CHARS = 200;
const REPORT_MIN_CHARS = 400;
const REPORT_RATIO = 4;
/** Marker between a short last text and the earlier one. */
const EARLIER_MARK = "[an earlier message of this run, longer than its last one:]";

// Text for the parent: the last non-empty text of a run, cut to a size that does not flood its context.

/** Maximum code points of a summary, the marker included. */
export const SUMMARY_MAX_CHARS = 5_000;

/** A text within the limit, and whether it was cut. */
export interface Summary {
  summary: string;
  truncated: boolean;
}

/** Returns the trimmed `text`, or {@link NO_SUMMARY}; above `maxChars` code points only its head and tail around a marker. */
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

/** Number of identical consecutive calls after which the model is told. */
export const REPETITION_NOTICE = 3;
/** Number of identical consecutive calls that end the run; the last one is not executed. */
export const REPETITION_LIMIT = 5;

/** Counts identical consecutive calls of one run, one call after the other. */
export class Repetition {
  #previous: { name: string; input: unknown } | undefined;
  #count = 0;
  #isOver = false;

  /** True if some call of the run completed {@link REPETITION_LIMIT} identical ones. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Returns the number of identical calls in a row, `call` included. */
  count(call: { name: string; input: unknown }): number {
    const isSame = this.#previous?.name === call.name && isSameJson(this.#previous.input, call.input);
    this.#count = isSame ? this.#count + 1 : 1;
    this.#previous = call;
    this.#isOver ||= this.#count >= REPETITION_LIMIT;
    return this.#count;
  }
}

/** Returns true if two JSON values are equal, whatever the order of their keys. No recursion, because nesting has no limit. */
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
