/** A log as people and programs read it: messages, answers, calls and results, in the order of the conversation. */
import { z } from "zod";
import { ContentBlock, Usage } from "./content.ts";
import {
  AssistantEntry,
  ClearedEntry,
  CompactedEntry,
  EntryKey,
  FailureEntry,
  NoticeEntry,
  ToolResultEntry,
  ToolStartedEntry,
  UserEntry,
} from "./log.ts";

const at = { message: z.int().min(0) };

/**
 * One item of a conversation. `message`: its number; even ones are the user's, odd ones the model's. `told`: a message of
 * the parent; `noticed`: a notice of the runtime; `said`: an answer of the model; `called`: a tool began; `returned`: its
 * result; `failed`: the answer never came; `left_out`: from here on requests omit the results of calls up to message
 * `through`; `compacted`: from here on the summary `text` replaces the messages before message `before`.
 */
export const TranscriptEntry = z.discriminatedUnion("kind", [
  z.object({ ...at, kind: z.literal("told"), run: z.int(), message_id: z.string(), text: z.string() }),
  z.object({ ...at, kind: z.literal("noticed"), text: z.string() }),
  z.object({
    ...at,
    kind: z.literal("said"),
    content: z.array(ContentBlock),
    stop_reason: z.string(),
    model: z.string(),
    usage: Usage,
    cost_usd: z.number(),
    duration_ms: z.number(),
  }),
  z.object({ ...at, kind: z.literal("called"), tool_use_id: z.string(), name: z.string() }),
  z.object({
    ...at,
    kind: z.literal("returned"),
    tool_use_id: z.string(),
    content: z.string(),
    is_error: z.boolean(),
    duration_ms: z.number(),
  }),
  z.object({ ...at, kind: z.literal("failed"), problem: z.string() }),
  z.object({ ...at, kind: z.literal("left_out"), through: z.int() }),
  z.object({
    ...at,
    kind: z.literal("compacted"),
    before: z.int(),
    text: z.string(),
    model: z.string(),
    usage: Usage,
    cost_usd: z.number(),
    duration_ms: z.number(),
  }),
]);
/** See {@link TranscriptEntry}. */
export type TranscriptEntry = z.infer<typeof TranscriptEntry>;

/** Maximum log entries that one read of a transcript takes, unless a single message has more. */
export const TRANSCRIPT_PAGE = 500;

/** Maximum log bytes that one read of a transcript takes, unless a single message has more. */
const TRANSCRIPT_PAGE_BYTES = 1_000_000;

/** Cuts a page to whole messages that have at most `most` bytes together; its first message stays in any case. */
export function withinBytes(
  page: { keys: readonly string[]; next?: number },
  bytes: readonly number[],
  most = TRANSCRIPT_PAGE_BYTES,
): { keys: readonly string[]; next?: number } {
  const messages = page.keys.map(messageOfKey);
  let sum = 0;
  const over = bytes.findIndex((size) => {
    sum += size;
    return sum > most;
  });
  const cut = over < 0 ? undefined : messages[over];
  if (cut === undefined) return page;
  const keys = page.keys.filter((_, i) => Number(messages[i]) < cut || messages[i] === messages[0]);
  if (keys.length === page.keys.length) return page;
  return { keys, next: Number(messages[keys.length - 1]) };
}

function messageOfKey(key: string): number {
  return EntryKey.parse(key).message;
}

/** Returns the keys of the messages after `after`, whole ones, at most `limit` entries; `next`: the last one, if more follow. */
export function pageOf(
  keys: readonly string[],
  { after, limit }: { after: number; limit: number },
): { keys: string[]; next?: number } {
  const wanted = keys
    .flatMap((key) => {
      const named = EntryKey.safeParse(key);
      return named.success && named.data.message > after ? [{ key, message: named.data.message }] : [];
    })
    .sort((a, b) => a.message - b.message);
  const first = wanted[0]?.message;
  const cut = wanted[limit]?.message;
  const page = wanted.filter(({ message }) => cut === undefined || message < cut || message === first);
  const next = page.length < wanted.length ? page.at(-1)?.message : undefined;
  return { keys: page.map(({ key }) => key), ...(next !== undefined && { next }) };
}

const ORDER: Record<TranscriptEntry["kind"], number> = {
  noticed: 0,
  told: 1,
  failed: 2,
  said: 3,
  called: 4,
  returned: 5,
  left_out: 6,
  compacted: 7,
};

/** Returns the entries of a log in the order of the conversation, without those that this version does not know. */
export function transcriptOf(log: ReadonlyMap<string, string>): TranscriptEntry[] {
  return [...log]
    .flatMap(([key, json]) => entriesOf(key, json))
    .sort((a, b) => a.message - b.message || ORDER[a.kind] - ORDER[b.kind]);
}

function entriesOf(key: string, json: string): TranscriptEntry[] {
  const named = EntryKey.safeParse(key);
  if (!named.success) return [];
  const { message, kind, callId: tool_use_id } = named.data;
  const value: unknown = JSON.parse(json);
  switch (kind) {
    case "notice":
      return [{ kind: "noticed", message, text: NoticeEntry.parse(value).text }];
    case "started":
      return [{ kind: "called", message, tool_use_id, name: ToolStartedEntry.parse(value).name }];
    case "result": {
      const { content, is_error, duration_ms } = ToolResultEntry.parse(value);
      return [{ kind: "returned", message, tool_use_id, content, is_error, duration_ms }];
    }
    case "failure":
      return [{ kind: "failed", message, problem: FailureEntry.parse(value).message }];
    case "cleared":
      return [{ kind: "left_out", message, through: ClearedEntry.parse(value).through }];
    case "compacted": {
      const { before, summary: text, model, usage, cost_usd, duration_ms } = CompactedEntry.parse(value);
      return [{ kind, message, before, text, model, usage, cost_usd, duration_ms }];
    }
    case "message":
      return message % 2 === 0 ? toldIn(message, value) : [saidIn(message, value)];
    default:
      return [];
  }
}

function toldIn(message: number, value: unknown): TranscriptEntry[] {
  const { run, messages } = UserEntry.parse(value);
  return messages.map(({ message_id, text }) => ({ kind: "told", message, run, message_id, text }));
}

function saidIn(message: number, value: unknown): TranscriptEntry {
  const { content, stop_reason, model, usage, cost_usd, duration_ms } = AssistantEntry.parse(value);
  return { kind: "said", message, content, stop_reason, model, usage, cost_usd, duration_ms };
}
