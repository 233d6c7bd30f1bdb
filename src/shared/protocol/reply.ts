/**
 * Replies and events for the parent. The runtime computes status and stop reason from closed sets, never from a model's
 * text. Also the spelling of a run's events in a line of the timeline.
 */
import { z } from "zod";
import { StoredUsage, totalTokens, Usage, usageText, ZERO_USAGE } from "./content.ts";
import { OpenQuestion } from "./message.ts";

/** Outcome of a run or an agent. */
export const ReplyStatus = z.enum(["succeeded", "partial", "failed", "cancelled"]);
/** See {@link ReplyStatus}. */
export type ReplyStatus = z.infer<typeof ReplyStatus>;

/** Stop reasons of each status. */
export const STOP_REASONS = {
  succeeded: ["end_turn"],
  partial: [
    "max_turns",
    "max_tokens",
    "max_total_tokens",
    "max_cost",
    "max_duration",
    "context_window",
    "loop_detected",
    "invalid_output",
    "finished_by_parent",
  ],
  failed: ["refusal", "model_error", "worker_lost", "tools_missing", "max_age", "refused"],
  cancelled: ["destroyed", "idle", "parent_gone"],
} as const satisfies Record<ReplyStatus, readonly string[]>;

/** Reason why a run stopped. */
export const StopReason = z.enum([
  ...STOP_REASONS.succeeded,
  ...STOP_REASONS.partial,
  ...STOP_REASONS.failed,
  ...STOP_REASONS.cancelled,
]);
/** See {@link StopReason}. */
export type StopReason = z.infer<typeof StopReason>;

/** A stop reason whose reply keeps the last text. */
export type PartialReason = (typeof STOP_REASONS.partial)[number];

/** A stop reason that a cap gives. */
export type CapReason = Exclude<PartialReason, "max_tokens" | "invalid_output">;

/** Returns the status of a stop reason. */
export function statusOf(reason: StopReason): ReplyStatus {
  for (const status of ReplyStatus.options) {
    if ((STOP_REASONS[status] as readonly string[]).includes(reason)) return status;
  }
  return "failed";
}

/** Summary of a run that wrote no text. */
export const NO_SUMMARY = "(no summary)";

/**
 * A crossed threshold: its kind (`turns`: paid model calls) and its value. `value`: in an event the count that crossed it, in a
 * reply the count so far.
 */
export const Alert = z.object({
  kind: z.enum(["turns", "tokens", "tool_calls", "cost_usd"]),
  threshold: z.number(),
  value: z.number(),
});
/** See {@link Alert}. */
export type Alert = z.infer<typeof Alert>;

/** Maximum number of files that a reply lists. */
export const MOST_LEFT_FILES = 64;

/** A file that a run left. `path` is relative to the workspace; `sha256`: in hex, absent beyond the first 32 MB of all files. */
export const LeftFile = z.object({
  path: z.string(),
  size_bytes: z.int().min(0),
  sha256: z.string().optional(),
});
/** See {@link LeftFile}. */
export type LeftFile = z.infer<typeof LeftFile>;

/**
 * Result of a run, or its state so far. `summary`: last non-empty text of the run, at most 5,000 code points; `tokens`: sum
 * of the four fields of `usage`; `tools_called`: calls by tool name; `duration_ms`: running time; `cost_usd`: 0 if the
 * model's price is unknown; `model`: that of the last call, "" if the run made none; `files`: files in the workspace at the
 * end of the run, by path, at most {@link MOST_LEFT_FILES}; `more_files`: there are others, which `Parent.files` lists.
 */
export const ReplyBody = z.object({
  summary: z.string(),
  truncated: z.boolean(),
  output: z.unknown().optional(),
  /** Answers and summaries. Events, alerts and `max_turns` also count paid calls whose answer could not be used. */
  turns: z.int().min(0),
  tokens: z.int().min(0),
  usage: Usage,
  cost_usd: z.number().min(0),
  tools_called: z.record(z.string(), z.int().min(1)),
  /** Tools that the agent was to have, and that the worker or the parent's list did not have. */
  unknown_tools: z.array(z.string()).optional(),
  alerts: z.array(Alert),
  /** Number of times that the model summarised a conversation that was too long: a turn each; absent if 0. */
  compactions: z.int().min(1).optional(),
  duration_ms: z.int().min(0),
  model: z.string(),
  files: z.array(LeftFile).optional(),
  more_files: z.literal(true).optional(),
  /** One sentence about a failure, for people. */
  error: z.string().optional(),
});
/** See {@link ReplyBody}. */
export type ReplyBody = z.infer<typeof ReplyBody>;

/** Counters of an agent that ended before its run committed anything. */
export const NOTHING_DONE: ReplyBody = {
  summary: NO_SUMMARY,
  truncated: false,
  turns: 0,
  tokens: 0,
  usage: ZERO_USAGE,
  cost_usd: 0,
  tools_called: {},
  alerts: [],
  duration_ms: 0,
  model: "",
};

const { turns, cost_usd, tools_called, model, duration_ms } = ReplyBody.shape;
/** Fields that few runs have; they are stored with their names, after the others. */
const RareMembers = ReplyBody.omit({
  ...{ summary: true, tokens: true, usage: true },
  ...{ turns: true, cost_usd: true, tools_called: true, model: true, duration_ms: true },
}).extend({ truncated: z.boolean().default(false), alerts: z.array(Alert).default([]) });

/** The names of a stored progress' values, in their order; the rare members follow. */
export const STORED_PROGRESS = [
  "turns",
  "cost_usd",
  "duration_ms",
  "usage",
  "tools_called",
  "model",
  "said",
] as const satisfies (keyof RunProgress)[];

/**
 * Progress of a run without its text, as stored with every turn: a list of {@link STORED_PROGRESS}. `said`:
 * number of the log message whose text is the summary, if no text is stored beside the progress; 0: no message.
 */
export const RunProgress = z
  .tuple([turns, cost_usd, duration_ms, StoredUsage, tools_called, model, z.int().min(0)], RareMembers)
  .transform(([turns, cost_usd, duration_ms, usage, tools_called, model, said, rare]) => ({
    ...{ turns, cost_usd, duration_ms, usage, tools_called, model, said, truncated: false, alerts: [] },
    ...rare,
    tokens: totalTokens(usage),
  }));
/** Progress of a run without its text: small, absolute counters; `said`: see {@link RunProgress}. */
export type RunProgress = Omit<ReplyBody, "summary"> & { said?: number | undefined };

/** Returns a progress as JSON that {@link RunProgress} reads: well-formed, without values that follow from others. */
export function progressJson(progress: RunProgress): string {
  const { usage, turns, cost_usd, duration_ms, tools_called, model, said = 0 } = progress;
  let json = `[${turns},${cost_usd},${duration_ms},${usageText(usage)},${JSON.stringify(tools_called)},${JSON.stringify(model)},${said}`;
  let rare = "";
  if (progress.truncated) rare += ',"truncated":true';
  if (progress.alerts.length > 0) rare += `,"alerts":${JSON.stringify(progress.alerts)}`;
  for (const name of RARE) {
    const value = progress[name];
    if (value !== undefined) rare += `,"${name}":${JSON.stringify(value)}`;
  }
  if (rare !== "") json += `,{${rare.slice(1)}}`;
  return wellFormedJson(`${json}]`);
}

const RARE = Object.keys(RareMembers.shape).filter(
  (name): name is Exclude<keyof typeof RareMembers.shape, "truncated" | "alerts"> =>
    name !== "truncated" && name !== "alerts",
);

/** Splits a body into the arguments of a verb: the counters, and the text. */
export function partsOf({ summary, ...progress }: ReplyBody): { progress: RunProgress; summary: string } {
  return { progress, summary };
}

const head = {
  /** Message: `<uid>.<run>.<message>/<call id>`; question: `<uid>.<message>/<call id>`; else: see `replyIdOf`. */
  reply_id: z.string(),
  parent_id: z.string(),
  agent_id: z.string(),
  name: z.string(),
  run: z.int().min(0),
  agent_status: z.enum(["idle", "queued", "running", "waiting", "ended"]),
  created_at: z.string(),
};

/** A reply without its body. */
export const ReplyHead = z.object({
  ...head,
  kind: z.enum(["reply", "ended"]),
  status: ReplyStatus,
  stop_reason: StopReason,
  message_ids: z.array(z.string()).default([]),
  undelivered: z.array(z.string()).optional(),
});

/**
 * End of a run or an agent. `kind`: `reply` is a run's result, `ended` means that the agent ended without one.
 * `message_ids`: ids of the messages that the run has read, oldest first; a task's prompt has its request key as its id.
 * `undelivered`: ids of messages that no run will read. `created_at`: ISO 8601, Redis' clock.
 */
export const Reply = ReplyBody.extend(ReplyHead.shape);
/** See {@link Reply}. */
export type Reply = z.infer<typeof Reply>;

/** Returns the sentence about messages with the ids `undelivered`, which came too late for their agent; "" if there are none. */
export function unreadNote(undelivered: readonly string[] = []): string {
  const count = undelivered.length;
  if (count === 0) return "";
  return count === 1
    ? "1 message to it came too late and was not read."
    : `${count} messages to it came too late and were not read.`;
}

/** Progress message of a sub-agent that is still at work. */
export const Interim = z.object({ ...head, kind: z.literal("message"), text: z.string() });
/** See {@link Interim}. */
export type Interim = z.infer<typeof Interim>;

/** Question of a sub-agent that waits. `answer_by`: ISO 8601, Redis' clock; after it the default answer holds. */
export const Question = OpenQuestion.extend({ ...head, kind: z.literal("question"), answer_by: z.string() });
/** See {@link Question}. */
export type Question = z.infer<typeof Question>;

/** One entry of a parent's reply channel. */
export const ChannelEntry = z.union([Reply, Interim, Question]);
/** See {@link ChannelEntry}. */
export type ChannelEntry = z.infer<typeof ChannelEntry>;

// Progress events: live hints for people and dashboards. They may be lost; replies and reads are the truth.

/** Maximum UTF-16 code units of a run's prompt in its first event, which outlives the log. */
export const PROMPT_KEPT_CHARS = 500;

const base = {
  v: z.literal(1),
  agent_id: z.string(),
  name: z.string(),
  run: z.int().min(0),
  turn: z.int().min(0),
};

/** One progress event; `turn` counts the paid model calls of the run from 1, unlike `turns` of the reply. */
export const ProgressEvent = z.discriminatedUnion("type", [
  z.object({
    ...base,
    type: z.literal("run_started"),
    max_turns: z.int(),
    worker: z.string(),
    /** The run's prompt, cut to {@link PROMPT_KEPT_CHARS}. */
    prompt: z.string().optional(),
  }),
  /** A worker has claimed a run that had begun before: after an answer, a hand-back or the loss of its worker. */
  z.object({ ...base, type: z.literal("run_continued"), worker: z.string() }),
  /** The lease of `worker` had expired when another claim found the run. */
  z.object({ ...base, type: z.literal("worker_lost"), worker: z.string() }),
  z.object({ ...base, type: z.literal("turn_started") }),
  z.object({ ...base, type: z.literal("text_delta"), text: z.string() }),
  /** The end of a paid call, also of one whose answer cannot be used: the sum over a run is what it has cost. */
  z.object({ ...base, type: z.literal("turn_finished"), tokens: z.int(), cost_usd: z.number() }),
  z.object({ ...base, type: z.literal("tool_started"), tool_use_id: z.string(), tool: z.string() }),
  z.object({
    ...base,
    type: z.literal("tool_finished"),
    tool_use_id: z.string(),
    tool: z.string(),
    is_error: z.boolean(),
    duration_ms: z.int(),
  }),
  z.object({ ...base, type: z.literal("alert"), alert: Alert }),
  /** The conversation did not fit: a summary by the model replaces the messages before message `before`. */
  z.object({ ...base, type: z.literal("compacted"), before: z.int() }),
  z.object({ ...base, type: z.literal("model_retry"), kind: z.string(), delay_ms: z.int() }),
  z.object({ ...base, type: z.literal("released"), reason: z.string() }),
  z.object({ ...base, type: z.literal("waiting_for_tools"), tools: z.array(z.string()) }),
  z.object({ ...base, type: z.literal("waiting"), question: z.string() }),
  z.object({ ...base, type: z.literal("ended"), status: ReplyStatus, stop_reason: StopReason }),
]);
/** See {@link ProgressEvent}. */
export type ProgressEvent = z.infer<typeof ProgressEvent>;

// JSON that every reader takes: a lone surrogate, which `JSON.stringify` writes as an escape, becomes U+FFFD.

/** An escape in JSON; a lone surrogate is captured. All escapes match as a whole: `\\ud800`, text about one, stays. */
const ESCAPE = /\\(?:u(d[89a-f][0-9a-f]{2})|.)/g;

/**
 * Replaces lone surrogates in `json`. The Messages API refuses a whole body for one, and Redis' scripts cannot decode it.
 * They come from models, and from texts cut in the middle of a character. `JSON.stringify` writes no other escape that
 * begins with `\ud`.
 */
export function wellFormedJson(json: string): string {
  if (!json.includes("\\ud")) return json;
  return json.replace(ESCAPE, (spelled, surrogate) => (surrogate === undefined ? spelled : "\uFFFD"));
}

type Specific<T> = T extends unknown ? Omit<T, "v" | "agent_id" | "name" | "run"> : never;
/** Event of a run; the verb that carries it adds the fields that name the run. */
export type RunEvent = Specific<ProgressEvent>;

/**
 * Spelling of the four kinds of events that every turn has. They are written with every commit, so a line holds them as
 * lists: a mark, the turn, then the values in this order. Other events are objects. Mark → kind, names of values.
 */
const LISTED: ReadonlyMap<unknown, readonly [type: RunEvent["type"], ...names: string[]]> = new Map([
  ["t", ["turn_started"]],
  ["f", ["turn_finished", "tokens", "cost_usd"]],
  ["s", ["tool_started", "tool_use_id", "tool"]],
  ["e", ["tool_finished", "tool_use_id", "tool", "duration_ms", "is_error"]],
]);
/** Defaults of the values that a list omits at its end. */
const UNSAID: ReadonlyMap<string, unknown> = new Map([["is_error", false]]);

/** Returns `event` as a line of the timeline holds it. */
export function eventText(event: RunEvent): string {
  const { turn } = event;
  switch (event.type) {
    case "turn_started":
      return `["t",${turn}]`;
    case "turn_finished":
      return `["f",${turn},${event.tokens},${event.cost_usd}]`;
    case "tool_started":
      return `["s",${turn},${JSON.stringify(event.tool_use_id)},${JSON.stringify(event.tool)}]`;
    case "tool_finished":
      return `["e",${turn},${JSON.stringify(event.tool_use_id)},${JSON.stringify(event.tool)},${event.duration_ms}${event.is_error ? ",true" : ""}]`;
    default:
      return JSON.stringify(event);
  }
}

/** Returns `events` as one line of the timeline, for a verb. */
export function eventLine(events: readonly RunEvent[]): string {
  let line = "";
  for (const event of events) line += line === "" ? eventText(event) : `,${eventText(event)}`;
  return line;
}

/** Returns the fields of an event in a line, unchecked; undefined if this version does not know the spelling. */
export function eventMembers(stored: unknown): object | undefined {
  if (!Array.isArray(stored)) return typeof stored === "object" && stored !== null ? stored : undefined;
  const [mark, turn, ...values]: readonly unknown[] = stored;
  const [type, ...names] = LISTED.get(mark) ?? [];
  if (type === undefined) return undefined;
  return { type, turn, ...Object.fromEntries(names.map((name, i) => [name, values[i] ?? UNSAID.get(name)])) };
}

/** Stream id before the oldest entry. */
export const OLDEST = "0-0";

/** Form of a stream id: epoch ms, until the year 2286, and a number. A reader behind a time in µs would never get anything. */
export const STREAM_ID = /^\d{1,13}-\d{1,16}$/;

/** Returns true if stream id `a` is smaller than `b`. */
export function isBehind(a: string, b: string): boolean {
  const [aMs = 0, aSeq = 0] = a.split("-").map(Number);
  const [bMs = 0, bSeq = 0] = b.split("-").map(Number);
  return aMs === bMs ? aSeq < bSeq : aMs < bMs;
}
