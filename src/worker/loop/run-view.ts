/** One run read out of the log: its turns in order, each tool call with what became of it. */
import { isToolUse, type ToolUseBlock, textOf } from "../../shared/protocol/content.ts";
import type { AssistantEntry, ToolResultEntry } from "../../shared/protocol/log.ts";
import type { Log, LogEntries } from "./log.ts";

/** A tool call and what became of it. */
export interface ToolCall {
  id: string;
  name: string;
  input: ToolUseBlock["input"];
  started: boolean;
  result: ToolResultEntry | undefined;
}

/** One committed model call; `message` is its number in the conversation. */
export interface Turn {
  message: number;
  entry: AssistantEntry;
  text: string;
  calls: ToolCall[];
}

/** The current run. */
export interface RunView {
  /** Number of its first user message; undefined before anything was delivered. */
  firstMessage: number | undefined;
  turns: Turn[];
  /** Number of the user message that comes next, or waits for the model already. */
  userMessage: number;
  /** Whether that user message has been delivered already. */
  delivered: boolean;
}

/** The run `log.run` as the log shows it. Its turns are those that follow its first message without a gap. */
export function viewRun(log: Log): RunView {
  const { deliveries, turns } = log.entries;
  const firstMessage = firstMessageOf(log);
  const own: Turn[] = [];
  let userMessage = firstMessage ?? firstUnused(log.entries);
  for (;;) {
    const entry = turns.get(userMessage + 1);
    if (!entry) return { firstMessage, turns: own, userMessage, delivered: deliveries.has(userMessage) };
    own.push(turnOf(log, userMessage + 1, entry));
    userMessage += 2;
  }
}

/** The turn at message `n`. */
export function turnOf(log: Log, n: number, entry: AssistantEntry): Turn {
  const calls = entry.content.filter(isToolUse).map(({ id, name, input }) => ({
    id,
    name,
    input,
    started: log.entries.started.has(`${n}/${id}`),
    result: log.entries.results.get(`${n}/${id}`),
  }));
  return { message: n, entry, text: textOf(entry.content), calls };
}

/** Whether the model said by itself that it is done. */
function endsNaturally({ entry }: Turn): boolean {
  return entry.stop_reason === "end_turn" || entry.stop_reason === "stop_sequence";
}

/** Whether the model ended without a word and the parent has said nothing since: it is asked for its answer. */
export function isNudged(log: Log, turn: Turn): boolean {
  return endsNaturally(turn) && turn.text.trim() === "" && !log.entries.deliveries.has(turn.message + 1);
}

function firstMessageOf({ entries, run }: Log): number | undefined {
  let first: number | undefined;
  for (const [n, delivery] of entries.deliveries) {
    if (delivery.run === run && (first === undefined || n < first)) first = n;
  }
  return first;
}

/**
 * The user message after everything that earlier runs said, tried or paid for. A run can end with its last message
 * unanswered; entries are written once, so the next run must not stand on the same number, nor inherit its failure.
 */
function firstUnused({ deliveries, turns, failures, purchases }: LogEntries): number {
  let last = -1;
  for (const used of [deliveries.keys(), turns.keys(), failures.keys()]) {
    for (const n of used) last = Math.max(last, n);
  }
  for (const { message } of purchases.values()) last = Math.max(last, message);
  return 2 * Math.floor(last / 2) + 2;
}
