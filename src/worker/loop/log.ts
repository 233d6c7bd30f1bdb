/**
 * The entries of an agent's log as the loop sees them: parsed once from Redis, or made once by this process together with
 * the stored JSON. Content of the conversation is spelled as JSON here and never again: a text as a string, an image as a
 * block.
 */
import { type ContentBlock, type Usage, usageText } from "../../shared/protocol/content.ts";
import {
  AssistantEntry,
  ClearedEntry,
  CompactedEntry,
  type DeliveredMessage,
  EntryKey,
  entryBytes,
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

/**
 * One entry. `message`: number of its message, even for the user, odd for the model; `bytes`: bytes that it counts in the
 * log; `…Json`: the same as JSON.
 */
export type LogEntry = { message: number; bytes: number } & (
  | { kind: "delivery"; run: number; partsJson: readonly string[]; hasFiles: boolean }
  | { kind: "notice"; textJson: string }
  | ({ kind: "answer" } & LoggedAnswer)
  | { kind: "started"; callId: string }
  | ({ kind: "result"; callId: string; contentJson: string } & ResultMarks)
  | { kind: "failure"; value: FailureEntry }
  | { kind: "purchase"; value: PurchaseEntry }
  | { kind: "verdict"; value: VerdictEntry }
  | { kind: "cleared"; value: ClearedEntry }
  | { kind: "compacted"; value: CompactedEntry }
);

/** A model's answer as the log holds it. */
export interface LoggedAnswer {
  content: readonly ContentBlock[];
  /** `content` in the spelling of the provider's adapter. */
  contentJson: string;
  stopReason: string;
  /** The provider's words about a refusal. */
  refusal?: string | undefined;
  model: string;
  usage: Usage;
  costUsd: number;
  /** The cap that made it the final call. */
  finalCall?: StopReason | undefined;
}

/** Marks of a tool's result besides its text. */
export interface ResultMarks {
  isError: boolean;
  /** True if the call could not be performed. */
  isRefused: boolean;
  /** True if the call was possible but not allowed. */
  isDenied: boolean;
}

/** An entry that this process adds: its key and JSON in Redis, and its form for the loop. */
export interface NewEntry {
  key: string;
  json: string;
  /** For an answer or a summary: the JSON before the text. It is small and contains the price. */
  head?: string;
  entry: LogEntry;
}

/** Returns the entries of `all` that are not in `some`. */
export function without(all: NewEntry[], some: readonly NewEntry[]): NewEntry[] {
  return all.length === 0 ? all : all.filter((each) => !some.includes(each));
}

/** Returns the paid usage and cost that `entry` holds; undefined: none. */
export function paidIn(entry: LogEntry): { usage: Usage; costUsd: number } | undefined {
  if (entry.kind === "answer") return { usage: entry.usage, costUsd: entry.costUsd };
  if (entry.kind === "purchase" || entry.kind === "compacted")
    return { usage: entry.value.usage, costUsd: entry.value.cost_usd };
  return undefined;
}

/** Returns the whole log in the order of its messages, because Redis returns a hash in any order. Throws as {@link readEntry}. */
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

/** Parses a stored entry. Throws a zod error for a key or a form that this version does not know. */
export function readEntry(key: string, json: string): LogEntry {
  const { message, kind, callId } = EntryKey.parse(key);
  const bytes = entryBytes(key, json);
  const value = storedJson(json, ["log", key]);
  switch (kind) {
    case "started":
      ToolStartedEntry.parse(value);
      return { kind, message, bytes, callId };
    case "result": {
      const { content, is_error: isError, refused = false, denied = false } = ToolResultEntry.parse(value);
      const marks = { isError, isRefused: refused, isDenied: denied };
      return { kind, message, bytes, callId, contentJson: JSON.stringify(content), ...marks };
    }
    case "failure":
      return { kind, message, bytes, value: FailureEntry.parse(value) };
    case "notice":
      return { kind, message, bytes, textJson: JSON.stringify(NoticeEntry.parse(value).text) };
    case "purchase":
      return { kind, message, bytes, value: PurchaseEntry.parse(value) };
    case "verdict":
      return { kind, message, bytes, value: VerdictEntry.parse(value) };
    case "cleared":
      return { kind, message, bytes, value: ClearedEntry.parse(value) };
    case "compacted":
      return { kind, message, bytes, value: CompactedEntry.parse(value) };
    default:
      return message % 2 === 0
        ? readDelivery(message, bytes, value)
        : readAnswer(message, bytes, value, json);
  }
}

function readDelivery(message: number, bytes: number, value: unknown): LogEntry {
  const { run, messages } = UserEntry.parse(value);
  return deliveryOf(message, bytes, run, messages);
}

function deliveryOf(
  message: number,
  bytes: number,
  run: number,
  messages: readonly DeliveredMessage[],
): LogEntry {
  const hasFiles = messages.some(({ note }) => note !== undefined);
  return { kind: "delivery", message, bytes, run, partsJson: messages.flatMap(partsOf), hasFiles };
}

function partsOf({ text, note, images = [] }: DeliveredMessage): string[] {
  const blocks = images.map(({ media_type, base64: data }) => ({
    type: "image",
    source: { type: "base64", media_type, data },
  }));
  const words = note === undefined ? [text] : [text, note];
  return [...words, ...blocks].map((part) => JSON.stringify(part));
}

/** JSON before the content of an answer. No JSON string contains it: its first quote would be escaped there. */
const BEFORE_CONTENT = ',"content":';
const OPENING = '{"v":1,"model":';

function readAnswer(message: number, bytes: number, value: unknown, json: string): LogEntry {
  const entry = AssistantEntry.parse(value);
  // The content goes back to the provider byte for byte as it came, whichever process sends it.
  const contentJson = json.startsWith(OPENING)
    ? json.slice(json.indexOf(BEFORE_CONTENT) + BEFORE_CONTENT.length, -1)
    : JSON.stringify(entry.content);
  return {
    kind: "answer",
    message,
    bytes,
    content: entry.content,
    contentJson,
    stopReason: entry.stop_reason,
    refusal: entry.refusal,
    model: entry.model,
    usage: entry.usage,
    costUsd: entry.cost_usd,
    finalCall: entry.hand_back,
  };
}

/** Makes the entry of the parent's messages, delivered as message `message` of run `run`. */
export function newDelivery(message: number, run: number, messages: readonly DeliveredMessage[]): NewEntry {
  const list = messages.map(({ message_id, text, note, images }) =>
    JSON.stringify({ v: 1, message_id, text, note, images }),
  );
  const json = `{"v":1,"run":${run},"messages":[${list.join(",")}]}`;
  const key = entryKey.message(message);
  return { key, json, entry: deliveryOf(message, entryBytes(key, json), run, messages) };
}

/** Makes a notice of the runtime to the model, delivered with message `message`; one `about` files stands beside another one. */
export function newNotice(message: number, text: string, about?: "files"): NewEntry {
  const textJson = JSON.stringify(text);
  const key = entryKey.notice(message, about);
  const json = `{"v":1,"text":${textJson}}`;
  return { key, json, entry: { kind: "notice", message, bytes: entryBytes(key, json), textJson } };
}

/** Makes the entry of the model's answer as message `message`. Its content is last, so that it can be cut out unchanged. */
export function newAnswer(message: number, answer: LoggedAnswer, durationMs: number): NewEntry {
  const { stopReason, refusal, model, usage, costUsd, finalCall, contentJson } = answer;
  let more = stopReason === USUAL_STOP ? "" : `,"stop_reason":${JSON.stringify(stopReason)}`;
  if (refusal !== undefined) more += `,"refusal":${JSON.stringify(refusal)}`;
  if (costUsd > 0) more += `,"cost_usd":${costUsd}`;
  if (finalCall !== undefined) more += `,"hand_back":"${finalCall}"`;
  const head = `${OPENING}${JSON.stringify(model)},"usage":${usageText(usage)},"duration_ms":${Math.round(durationMs)}${more}${BEFORE_CONTENT}`;
  const { content } = answer;
  const key = entryKey.message(message);
  const json = `${head}${contentJson}}`;
  const entry = {
    kind: "answer",
    message,
    bytes: entryBytes(key, json),
    content,
    contentJson,
    stopReason,
    refusal,
    model,
    usage,
    costUsd,
    finalCall,
  } as const;
  return { key, json, head, entry };
}

/** Makes the mark that the call `callId` of message `message` begins. */
export function newStarted(message: number, callId: string, name: string): NewEntry {
  return startedAt(entryKey.started(message, callId), message, callId, name);
}

function startedAt(key: string, message: number, callId: string, name: string): NewEntry {
  const json = `{"v":1,"name":${JSON.stringify(name)}}`;
  return { key, json, entry: { kind: "started", message, bytes: entryBytes(key, json), callId } };
}

/** Makes the mark of a question: that of the call which asks it. */
export function newQuestionMark(questionId: string): NewEntry {
  return startedAt(entryKey.startedOf(questionId), 0, "", ASK_TOOL);
}

/** Makes the result of a call; `isInterrupted`: a crash cut the call off. */
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
  const key = entryKey.result(message, callId);
  const json = `{"v":1,"content":${contentJson}${more}}`;
  const bytes = entryBytes(key, json);
  return {
    key,
    json,
    entry: { kind: "result", message, bytes, callId, contentJson, isError, isRefused, isDenied },
  };
}

/** Makes the entry that message `message` will never come. */
export function newFailure(message: number, value: FailureEntry): NewEntry {
  const key = entryKey.failure(message);
  const json = JSON.stringify(value);
  return { key, json, entry: { kind: "failure", message, bytes: entryBytes(key, json), value } };
}

/** Makes the verdict on message `message` under the output schema. */
export function newVerdict(message: number, value: VerdictEntry): NewEntry {
  const key = entryKey.verdict(message);
  const json = JSON.stringify(value);
  return { key, json, entry: { kind: "verdict", message, bytes: entryBytes(key, json), value } };
}

/** Makes the entry that requests omit old results from message `message` on. */
export function newCleared(message: number, value: ClearedEntry): NewEntry {
  const key = entryKey.cleared(message, value.through);
  const json = JSON.stringify(value);
  return { key, json, entry: { kind: "cleared", message, bytes: entryBytes(key, json), value } };
}

/** Makes the entry that a summary replaces earlier messages from message `message` on. */
export function newCompacted(message: number, value: CompactedEntry): NewEntry {
  const json = priced(value);
  // A copy, because a slice would keep the whole summary in memory as long as the run.
  const head = Array.from(json.slice(0, json.indexOf('"summary"'))).join("");
  const key = entryKey.compacted(message, value.before);
  return { key, json, head, entry: { kind: "compacted", message, bytes: entryBytes(key, json), value } };
}

/**
 * Makes the entry of a call for message `message` that the claim with `epoch` paid for without a usable answer, the `k`th of its
 * kind.
 */
export function newPurchase(message: number, epoch: number, k: number, value: PurchaseEntry): NewEntry {
  const key = entryKey.purchase(message, epoch, k);
  const json = priced(value);
  return { key, json, entry: { kind: "purchase", message, bytes: entryBytes(key, json), value } };
}

/** Returns an entry as JSON, its usage in the spelling of {@link StoredUsage}. */
function priced({ v, usage, ...value }: CompactedEntry | PurchaseEntry): string {
  return `{"v":${v},"usage":${usageText(usage)},${JSON.stringify(value).slice(1)}`;
}
