/**
 * The entries of an agent's log as the loop sees them: read once from Redis, or made once by this process together with
 * the JSON that is stored. What goes into the conversation is spelled as JSON here and never again: a text as a string, an
 * image as a block.
 */
import { type ContentBlock, type Usage, usageText } from "../../shared/protocol/content.ts";
import {
  AssistantEntry,
  ClearedEntry,
  CompactedEntry,
  type DeliveredMessage,
  EntryKey,
  entryKey,
  FailureEntry,
  NoticeEntry,
  PurchaseEntry,
  storedJson,
  ToolResultEntry,
  ToolStartedEntry,
  USUAL_STOP,
  UserEntry,
  VerdictEntry,
} from "../../shared/protocol/log.ts";
import { ASK_TOOL } from "../../shared/protocol/message.ts";
import type { StopReason } from "../../shared/protocol/reply.ts";

/** One entry. `message` is the number it belongs to: even for the user, odd for the model. `…Json`: the same as JSON. */
export type LogEntry =
  | { kind: "delivery"; message: number; run: number; partsJson: readonly string[]; hasFiles: boolean }
  | { kind: "notice"; message: number; textJson: string }
  | ({ kind: "answer"; message: number } & LoggedAnswer)
  | { kind: "started"; message: number; callId: string }
  | ({ kind: "result"; message: number; callId: string; contentJson: string } & ResultMarks)
  | { kind: "failure"; message: number; value: FailureEntry }
  | { kind: "purchase"; message: number; value: PurchaseEntry }
  | { kind: "verdict"; message: number; value: VerdictEntry }
  | { kind: "cleared"; message: number; value: ClearedEntry }
  | { kind: "compacted"; message: number; value: CompactedEntry };

/** A model's answer as the log holds it. */
export interface LoggedAnswer {
  content: readonly ContentBlock[];
  /** `content` as the provider's adapter spelled it. */
  contentJson: string;
  stopReason: string;
  model: string;
  usage: Usage;
  costUsd: number;
  /** The cap that made it the final call. */
  finalCall?: StopReason | undefined;
}

/** What a tool's result says besides its text. */
export interface ResultMarks {
  isError: boolean;
  /** The call was never performed: it could not be. */
  isRefused: boolean;
  /** The call could be performed and was not allowed. */
  isDenied: boolean;
}

/** An entry that this process adds: where and how it is stored, and what the loop makes of it. */
export interface NewEntry {
  key: string;
  json: string;
  /** Of an answer and a summary: what stands before the text. It is small, and says what was paid. */
  head?: string;
  entry: LogEntry;
}

/** What `entry` says that was paid for; undefined: nothing. */
export function paidIn(entry: LogEntry): { usage: Usage; costUsd: number } | undefined {
  if (entry.kind === "answer") return { usage: entry.usage, costUsd: entry.costUsd };
  if (entry.kind === "purchase" || entry.kind === "compacted")
    return { usage: entry.value.usage, costUsd: entry.value.cost_usd };
  return undefined;
}

/** The whole log in the order of its messages; Redis returns a hash in any order. Throws as {@link readEntry}. */
export function readLog(stored: Iterable<readonly [key: string, json: string]>): LogEntry[] {
  const entries = Array.from(stored, ([key, json]) => readEntry(key, json));
  return entries.sort((a, b) => a.message - b.message || ORDER[a.kind] - ORDER[b.kind]);
}

const ORDER: Readonly<Record<LogEntry["kind"], number>> = {
  notice: 0,
  delivery: 1,
  purchase: 2,
  failure: 3,
  answer: 4,
  started: 5,
  result: 6,
  verdict: 7,
  cleared: 8,
  compacted: 9,
};

/** A stored entry. Throws a zod error for a key or a shape that this version does not know. */
export function readEntry(key: string, json: string): LogEntry {
  const { message, kind, callId } = EntryKey.parse(key);
  const value = storedJson(json, ["log", key]);
  switch (kind) {
    case "started":
      ToolStartedEntry.parse(value);
      return { kind, message, callId };
    case "result": {
      const { content, is_error: isError, refused = false, denied = false } = ToolResultEntry.parse(value);
      const marks = { isError, isRefused: refused, isDenied: denied };
      return { kind, message, callId, contentJson: JSON.stringify(content), ...marks };
    }
    case "failure":
      return { kind, message, value: FailureEntry.parse(value) };
    case "notice":
      return { kind, message, textJson: JSON.stringify(NoticeEntry.parse(value).text) };
    case "purchase":
      return { kind, message, value: PurchaseEntry.parse(value) };
    case "verdict":
      return { kind, message, value: VerdictEntry.parse(value) };
    case "cleared":
      return { kind, message, value: ClearedEntry.parse(value) };
    case "compacted":
      return { kind, message, value: CompactedEntry.parse(value) };
    default:
      return message % 2 === 0 ? readDelivery(message, value) : readAnswer(message, value, json);
  }
}

function readDelivery(message: number, value: unknown): LogEntry {
  const { run, messages } = UserEntry.parse(value);
  return deliveryOf(message, run, messages);
}

function deliveryOf(message: number, run: number, messages: readonly DeliveredMessage[]): LogEntry {
  const hasFiles = messages.some(({ note }) => note !== undefined);
  return { kind: "delivery", message, run, partsJson: messages.flatMap(partsOf), hasFiles };
}

function partsOf({ text, note, images = [] }: DeliveredMessage): string[] {
  const blocks = images.map(({ media_type, base64: data }) => ({
    type: "image",
    source: { type: "base64", media_type, data },
  }));
  const words = note === undefined ? [text] : [text, note];
  return [...words, ...blocks].map((part) => JSON.stringify(part));
}

/** What stands before the content of an answer. No JSON string holds it: its first quote would be escaped there. */
const BEFORE_CONTENT = ',"content":';
const OPENING = '{"v":1,"model":';

function readAnswer(message: number, value: unknown, json: string): LogEntry {
  const entry = AssistantEntry.parse(value);
  // The content goes back to the provider in the very bytes in which it came, whichever process sends it.
  const contentJson = json.startsWith(OPENING)
    ? json.slice(json.indexOf(BEFORE_CONTENT) + BEFORE_CONTENT.length, -1)
    : JSON.stringify(entry.content);
  return {
    kind: "answer",
    message,
    content: entry.content,
    contentJson,
    stopReason: entry.stop_reason,
    model: entry.model,
    usage: entry.usage,
    costUsd: entry.cost_usd,
    finalCall: entry.hand_back,
  };
}

/** The parent's messages, delivered as message `message` of run `run`. */
export function newDelivery(message: number, run: number, messages: readonly DeliveredMessage[]): NewEntry {
  const list = messages.map(({ message_id, text, note, images }) =>
    JSON.stringify({ v: 1, message_id, text, note, images }),
  );
  return {
    key: entryKey.message(message),
    json: `{"v":1,"run":${run},"messages":[${list.join(",")}]}`,
    entry: deliveryOf(message, run, messages),
  };
}

/** A word of the runtime to the model, delivered with message `message`. */
export function newNotice(message: number, text: string): NewEntry {
  const textJson = JSON.stringify(text);
  return {
    key: entryKey.notice(message),
    json: `{"v":1,"text":${textJson}}`,
    entry: { kind: "notice", message, textJson },
  };
}

/** The model's answer as message `message`. Its content stands last, so that it can be cut out again as it came. */
export function newAnswer(message: number, answer: LoggedAnswer, durationMs: number): NewEntry {
  const { stopReason, model, usage, costUsd, finalCall, contentJson } = answer;
  let more = stopReason === USUAL_STOP ? "" : `,"stop_reason":${JSON.stringify(stopReason)}`;
  if (costUsd > 0) more += `,"cost_usd":${costUsd}`;
  if (finalCall !== undefined) more += `,"hand_back":"${finalCall}"`;
  const head = `${OPENING}${JSON.stringify(model)},"usage":${usageText(usage)},"duration_ms":${Math.round(durationMs)}${more}${BEFORE_CONTENT}`;
  const { content } = answer;
  const entry = {
    kind: "answer",
    message,
    content,
    contentJson,
    stopReason,
    model,
    usage,
    costUsd,
    finalCall,
  } as const;
  return { key: entryKey.message(message), json: `${head}${contentJson}}`, head, entry };
}

/** The call `callId` of message `message` begins. */
export function newStarted(message: number, callId: string, name: string): NewEntry {
  return {
    key: entryKey.started(message, callId),
    json: `{"v":1,"name":${JSON.stringify(name)}}`,
    entry: { kind: "started", message, callId },
  };
}

/** The mark of a question that is put: that of the call which puts it. */
export function newQuestionMark(questionId: string): NewEntry {
  const { key, ...mark } = newStarted(0, "", ASK_TOOL);
  return { ...mark, key: entryKey.startedOf(questionId) };
}

/** What a call gave back; `isInterrupted`: a crash cut it off. */
export function newResult(
  message: number,
  callId: string,
  content: string,
  marks: Partial<ResultMarks> & { isInterrupted?: boolean; durationMs?: number } = {},
): NewEntry {
  const {
    isError = false,
    isRefused = false,
    isDenied = false,
    isInterrupted = false,
    durationMs = 0,
  } = marks;
  const contentJson = JSON.stringify(content);
  const tookMs = Math.round(durationMs);
  let more = isError ? ',"is_error":true' : "";
  if (tookMs > 0) more += `,"duration_ms":${tookMs}`;
  if (isInterrupted) more += ',"interrupted":true';
  if (isRefused) more += ',"refused":true';
  if (isDenied) more += ',"denied":true';
  return {
    key: entryKey.result(message, callId),
    json: `{"v":1,"content":${contentJson}${more}}`,
    entry: { kind: "result", message, callId, contentJson, isError, isRefused, isDenied },
  };
}

/** Message `message` will never come. */
export function newFailure(message: number, value: FailureEntry): NewEntry {
  return {
    key: entryKey.failure(message),
    json: JSON.stringify(value),
    entry: { kind: "failure", message, value },
  };
}

/** Whether message `message` fits the output schema. */
export function newVerdict(message: number, value: VerdictEntry): NewEntry {
  return {
    key: entryKey.verdict(message),
    json: JSON.stringify(value),
    entry: { kind: "verdict", message, value },
  };
}

/** From message `message` on requests leave out old results. */
export function newCleared(message: number, value: ClearedEntry): NewEntry {
  return {
    key: entryKey.cleared(message, value.through),
    json: JSON.stringify(value),
    entry: { kind: "cleared", message, value },
  };
}

/** From message `message` on a summary stands for what was said before. */
export function newCompacted(message: number, value: CompactedEntry): NewEntry {
  const json = priced(value);
  return {
    key: entryKey.compacted(message, value.before),
    json,
    // A copy: a slice would keep the whole summary for as long as the run.
    head: Array.from(json.slice(0, json.indexOf('"summary"'))).join(""),
    entry: { kind: "compacted", message, value },
  };
}

/** A call for message `message` that the claim with `epoch` paid for in vain, the `k`th of its kind. */
export function newPurchase(message: number, epoch: number, k: number, value: PurchaseEntry): NewEntry {
  return {
    key: entryKey.purchase(message, epoch, k),
    json: priced(value),
    entry: { kind: "purchase", message, value },
  };
}

/** An entry as JSON, its usage in the spelling of {@link StoredUsage}. */
function priced({ v, usage, ...value }: CompactedEntry | PurchaseEntry): string {
  return `{"v":${v},"usage":${usageText(usage)},${JSON.stringify(value).slice(1)}`;
}
