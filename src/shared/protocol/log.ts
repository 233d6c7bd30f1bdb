/**
 * The log of an agent: a hash of entries, each written once. Message n of the conversation is entry `n`; user
 * messages are even, the model's odd. A tool call of message n leaves `n/<id>/started` and `n/<id>/result`; the user
 * message with the results is derived from them and never stored.
 */
import { z } from "zod";
import { ContentBlock, StoredUsage, textOf } from "./content.ts";
import { Attached, InboxMessage } from "./message.ts";
import { StopReason } from "./reply.ts";
import { jsonIn } from "./text.ts";

/** A message of the parent as it was delivered: with what the model is told of its files, and with its images. */
export const DeliveredMessage = InboxMessage.omit({ attached: true }).extend({
  note: z.string().optional(),
  images: Attached.shape.images.optional(),
});
/** See {@link DeliveredMessage}. */
export type DeliveredMessage = z.infer<typeof DeliveredMessage>;
/** Messages of the parent that message n delivers, and the run they belong to. */
export const UserEntry = z.object({
  v: z.literal(1),
  run: z.int().min(1),
  messages: z.array(DeliveredMessage).min(1),
});
/** Why nearly every answer ends; an entry says another reason. */
export const USUAL_STOP = "tool_use";
/**
 * One committed model call. `stop_reason` is the provider's; `hand_back` names the cap that made it the final call. Entries that
 * every turn writes leave out what is mostly so.
 */
export const AssistantEntry = z.object({
  v: z.literal(1),
  content: z.array(ContentBlock),
  stop_reason: z.string().default(USUAL_STOP),
  /** What the provider said of a refusal. */
  refusal: z.string().optional(),
  model: z.string(),
  usage: StoredUsage,
  cost_usd: z.number().min(0).default(0),
  duration_ms: z.int().min(0),
  hand_back: StopReason.optional(),
});
/** A tool call has begun; without a result its effect is unknown. */
export const ToolStartedEntry = z.object({ v: z.literal(1), name: z.string() });
/** What a tool call gave back; `interrupted`: a crash cut it off; `refused`: it could not be performed at all. */
export const ToolResultEntry = z.object({
  v: z.literal(1),
  content: z.string(),
  is_error: z.boolean().default(false),
  duration_ms: z.int().min(0).default(0),
  interrupted: z.boolean().optional(),
  /** The call could not be performed as it was made. */
  refused: z.boolean().optional(),
  /** The call could be performed and was not allowed: by a rule, a hook, the parent, or as a repetition. */
  denied: z.boolean().optional(),
});
/** A model call that can bring no message: the run ends there. `context_window`: the conversation has grown too long. */
export const FailureEntry = z.object({
  v: z.literal(1),
  kind: z.enum(["context_window", "model_error"]),
  message: z.string(),
  hand_back: StopReason.optional(),
});
/** A word of the runtime to the model, delivered with message n. */
export const NoticeEntry = z.object({ v: z.literal(1), text: z.string() });
/**
 * Whether the text of message n fits the agent's output schema; `problem` is one sentence for the model; `final`: asking
 * again would be of no use, for the schema itself cannot be checked.
 */
export const VerdictEntry = z.object({
  v: z.literal(1),
  fits: z.boolean(),
  problem: z.string().optional(),
  final: z.boolean().optional(),
});
/**
 * The conversation has become long: from message n on, requests leave out the results of calls of message `through` and
 * before; the log keeps them. `go_on`: the last answer was cut off by the length, and the model is told to go on.
 */
export const ClearedEntry = z.object({
  v: z.literal(1),
  through: z.int().min(1),
  go_on: z.boolean().optional(),
});
/**
 * The conversation did not fit and nothing was left to leave out: from message n on, `summary` stands in requests for what was
 * said before message `before`, which is the model's. It was bought like an answer, and counts as a turn. `go_on`: as above.
 */
export const CompactedEntry = z.object({
  v: z.literal(1),
  before: z.int().min(1),
  summary: z.string(),
  model: z.string(),
  usage: StoredUsage,
  cost_usd: z.number().min(0),
  duration_ms: z.int().min(0),
  go_on: z.boolean().optional(),
});
/**
 * A model call that was paid for although no message came of it. `cut_off`: this side ended the call, or had the message
 * already; else the provider's answer could not be used, and the call counts as a turn. `sums_up`: it was to be a summary of
 * what was said before that message.
 */
export const PurchaseEntry = z.object({
  v: z.literal(1),
  usage: StoredUsage,
  cost_usd: z.number().min(0),
  cut_off: z.boolean().optional(),
  sums_up: z.int().optional(),
});

/** See {@link UserEntry}. */
export type UserEntry = z.infer<typeof UserEntry>;
/** See {@link AssistantEntry}. */
export type AssistantEntry = z.infer<typeof AssistantEntry>;
/** See {@link ToolStartedEntry}. */
export type ToolStartedEntry = z.infer<typeof ToolStartedEntry>;
/** See {@link ToolResultEntry}. */
export type ToolResultEntry = z.infer<typeof ToolResultEntry>;
/** See {@link FailureEntry}. */
export type FailureEntry = z.infer<typeof FailureEntry>;
/** See {@link NoticeEntry}. */
export type NoticeEntry = z.infer<typeof NoticeEntry>;
/** See {@link VerdictEntry}. */
export type VerdictEntry = z.infer<typeof VerdictEntry>;
/** See {@link ClearedEntry}. */
export type ClearedEntry = z.infer<typeof ClearedEntry>;
/** See {@link CompactedEntry}. */
export type CompactedEntry = z.infer<typeof CompactedEntry>;
/** See {@link PurchaseEntry}. */
export type PurchaseEntry = z.infer<typeof PurchaseEntry>;

/**
 * A log with so many bytes is full: its run makes its final call, and its agent takes no further message. The turn that reaches
 * the bound stays whole, so a log may be longer by what one turn brings. Every claim reads the whole log.
 */
export const LOG_MAX_BYTES = 32 * 1024 * 1024;
/** What an entry counts beside its key and its JSON: a claim of many small entries costs Redis and the worker more than one of a few large ones. */
export const ENTRY_OVERHEAD_BYTES = 512;

/** How many bytes of a log an entry counts for. */
export function entryBytes(key: string, json: string): number {
  return Buffer.byteLength(key) + Buffer.byteLength(json) + ENTRY_OVERHEAD_BYTES;
}

/** The log entry that `text` as the answer to a question becomes. The same text gives the same bytes: a repetition is known by them. */
export function answerEntry(text: string): string {
  return JSON.stringify({ v: 1, content: text } satisfies z.input<typeof ToolResultEntry>);
}

/** The text of the answer that is stored as `json`, without the blanks around it; "" where it is none. */
export function answerText(json: string): string {
  const { data } = AssistantEntry.safeParse(jsonIn(json));
  return data ? textOf(data.content).trim() : "";
}

/** The value that the stored `text` spells as JSON; `path` says where it stands. Throws a zod error that names it where it spells none. */
export function storedJson(text: string, path: readonly (string | number)[]): unknown {
  const value = jsonIn(text);
  if (value !== undefined) return value;
  throw new z.ZodRealError([{ code: "custom", message: "not JSON", path: [...path] }]);
}

/** The names of log entries. */
export const entryKey = {
  /** Message `n`. */
  message: (n: number): string => `${n}`,
  /** What both entries of the call `toolUseId` of message `n` begin with. */
  call: (n: number, toolUseId: string): string => `${n}/${toolUseId}`,
  /** The call `toolUseId` of message `n` has begun. */
  started: (n: number, toolUseId: string): string => entryKey.startedOf(entryKey.call(n, toolUseId)),
  /** The same, of a call named by what its entries begin with: a question's id. */
  startedOf: (call: string): string => `${call}/started`,
  /** The result of the call `toolUseId` of message `n`. */
  result: (n: number, toolUseId: string): string => `${entryKey.call(n, toolUseId)}/result`,
  /** Message `n` will never come. */
  failure: (n: number): string => `${n}/failure`,
  /** A word of the runtime with message `n`. */
  notice: (n: number): string => `${n}/notice`,
  /** Whether message `n` fits the output schema. */
  verdict: (n: number): string => `${n}/verdict`,
  /** With message `n` results through those of message `through` are left out of requests. */
  cleared: (n: number, through: number): string => `${n}/cleared/${through}`,
  /** With message `n` a summary stands for what was said before message `before`. */
  compacted: (n: number, before: number): string => `${n}/compacted/${before}`,
  /** A call for message `n` that the claim with `epoch` paid for in vain, the `k`th of its kind. */
  purchase: (n: number, epoch: number, k: number): string => `${n}/purchase/${epoch}.${k}`,
} as const;

/** A call's id is the provider's and may spell anything, so the end of a key tells what it is. */
const ENTRY_KEY =
  /^(\d+)(?:\/(?:(.+)\/(started|result)|(failure|notice|purchase|verdict|cleared|compacted)(?:\/[^/]+)?))?$/s;

/** What a log key names: the message, the kind of entry, and the tool call it belongs to (else empty). */
export const EntryKey = z
  .string()
  .regex(ENTRY_KEY, "a log entry of a kind that this version does not know")
  .transform((key) => {
    const [, message, callId = "", mark, kind = mark ?? "message"] = ENTRY_KEY.exec(key) ?? [];
    return { message: Number(message), kind, callId };
  });
