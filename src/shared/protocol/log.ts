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

/** A message of the parent as delivered: with a note for the model about its files, and with its images. */
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
/** Stop reason of nearly every answer; an entry names only another one. */
export const USUAL_STOP = "tool_use";
/** Blocks as they came: a schema's copy has its members in another order, and lacks one with the name `__proto__`. */
const BlocksAsSent = z.custom<ContentBlock[]>((blocks) => z.array(ContentBlock).safeParse(blocks).success);
/**
 * One committed model call. `stop_reason` is the provider's; `hand_back` names the cap that made it the final call. Every
 * turn writes such entries, so they omit usual values.
 */
export const AssistantEntry = z.object({
  v: z.literal(1),
  content: BlocksAsSent,
  stop_reason: z.string().default(USUAL_STOP),
  /** The provider's words about a refusal. */
  refusal: z.string().optional(),
  model: z.string(),
  usage: StoredUsage,
  cost_usd: z.number().min(0).default(0),
  duration_ms: z.int().min(0),
  hand_back: StopReason.optional(),
});
/** Mark of a tool call that has begun; without a result its effect is unknown. */
export const ToolStartedEntry = z.object({ v: z.literal(1), name: z.string() });
/** Result of a tool call. `interrupted`: a crash cut the call off; `refused`: it could not be performed at all. */
export const ToolResultEntry = z.object({
  v: z.literal(1),
  content: z.string(),
  is_error: z.boolean().default(false),
  duration_ms: z.int().min(0).default(0),
  interrupted: z.boolean().optional(),
  /** True if the call could not be performed as it was made. */
  refused: z.boolean().optional(),
  /** True if the call was possible but not allowed: by a rule, a hook, the parent, or as a repetition. */
  denied: z.boolean().optional(),
});
/** A model call that can bring no message: the run ends there. `context_window`: the conversation is too long. */
export const FailureEntry = z.object({
  v: z.literal(1),
  kind: z.enum(["context_window", "model_error"]),
  message: z.string(),
  hand_back: StopReason.optional(),
});
/** Notice of the runtime to the model, delivered with message n. */
export const NoticeEntry = z.object({ v: z.literal(1), text: z.string() });
/**
 * Verdict on the text of message n under the agent's output schema. `problem`: one sentence for the model; `final`: asking
 * again is useless, because the schema itself cannot be checked.
 */
export const VerdictEntry = z.object({
  v: z.literal(1),
  fits: z.boolean(),
  problem: z.string().optional(),
  final: z.boolean().optional(),
});
/**
 * Reduction of a long conversation: from message n on, requests omit the results of calls up to message `through`; the log
 * keeps them. `go_on`: the last answer was cut off by the length, and the model is told to go on.
 */
export const ClearedEntry = z.object({
  v: z.literal(1),
  through: z.int().min(1),
  go_on: z.boolean().optional(),
});
/**
 * Summary of a conversation that did not fit after all results were omitted. From message n on, `summary` replaces the
 * messages before the model's message `before`. It was bought like an answer and counts as a turn. `go_on`: as above.
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
 * A paid model call without a message. `cut_off`: this side ended the call, or had the message already; otherwise the
 * provider's answer was unusable, and the call counts as a turn. `sums_up`: the call was to summarise the messages before
 * that message.
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
 * Size at which a log is full: its run makes its final call, and its agent takes no further message. The turn that reaches
 * the limit stays whole, so one turn may exceed it. The limit exists because every claim reads the whole log.
 */
export const LOG_MAX_BYTES = 32 * 1024 * 1024;
/** Bytes that an entry counts beside its key and JSON: many small entries cost a claim more than a few large ones. */
export const ENTRY_OVERHEAD_BYTES = 512;

/** Returns the bytes that an entry counts in its log. */
export function entryBytes(key: string, json: string): number {
  return Buffer.byteLength(key) + Buffer.byteLength(json) + ENTRY_OVERHEAD_BYTES;
}

/** Returns the log entry for the answer `text` to a question. Equal texts give equal bytes, which identify a repetition. */
export function answerEntry(text: string): string {
  return JSON.stringify({ v: 1, content: text } satisfies z.input<typeof ToolResultEntry>);
}

/** Returns the trimmed text of the answer stored as `json`; "" if there is none. */
export function answerText(json: string): string {
  const { data } = AssistantEntry.safeParse(jsonIn(json));
  return data ? textOf(data.content).trim() : "";
}

/** Parses the stored `text` as JSON. Throws a zod error that names its place, `path`, if it is not JSON. */
export function storedJson(text: string, path: readonly (string | number)[]): unknown {
  const value = jsonIn(text);
  if (value !== undefined) return value;
  throw new z.ZodRealError([{ code: "custom", message: "not JSON", path: [...path] }]);
}

/** The names of log entries. */
export const entryKey = {
  /** Message `n`. */
  message: (n: number): string => `${n}`,
  /** Common prefix of the two entries of the call `toolUseId` of message `n`. */
  call: (n: number, toolUseId: string): string => `${n}/${toolUseId}`,
  /** The call `toolUseId` of message `n` has begun. */
  started: (n: number, toolUseId: string): string => entryKey.startedOf(entryKey.call(n, toolUseId)),
  /** The same, for a call given by the prefix of its entries: a question's id. */
  startedOf: (call: string): string => `${call}/started`,
  /** The result of the call `toolUseId` of message `n`. */
  result: (n: number, toolUseId: string): string => `${entryKey.call(n, toolUseId)}/result`,
  /** Message `n` will never come. */
  failure: (n: number): string => `${n}/failure`,
  /** A notice of the runtime with message `n`; one `about` a matter of its own stands beside the others. */
  notice: (n: number, about?: "files"): string => (about ? `${n}/notice/${about}` : `${n}/notice`),
  /** The verdict on message `n` under the output schema. */
  verdict: (n: number): string => `${n}/verdict`,
  /** From message `n` on, requests omit the results up to those of message `through`. */
  cleared: (n: number, through: number): string => `${n}/cleared/${through}`,
  /** From message `n` on, a summary replaces the messages before message `before`. */
  compacted: (n: number, before: number): string => `${n}/compacted/${before}`,
  /** A call for message `n` that the claim with `epoch` paid for without a usable answer, the `k`th of its kind. */
  purchase: (n: number, epoch: number, k: number): string => `${n}/purchase/${epoch}.${k}`,
} as const;

/** The provider chooses a call's id, which may contain anything; so the end of a key tells its kind. */
const ENTRY_KEY =
  /^(\d+)(?:\/(?:(.+)\/(started|result)|(failure|notice|purchase|verdict|cleared|compacted)(?:\/[^/]+)?))?$/s;

/** Parsed log key: the message, the kind of entry, and the id of its tool call (else empty). */
export const EntryKey = z
  .string()
  .regex(ENTRY_KEY, "a log entry of a kind that this version does not know")
  .transform((key) => {
    const [, message, callId = "", mark, kind = mark ?? "message"] = ENTRY_KEY.exec(key) ?? [];
    return { message: Number(message), kind, callId };
  });
