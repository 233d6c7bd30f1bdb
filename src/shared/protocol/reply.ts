/**
 * What reaches the parent: status and stop reason from closed sets, computed by the runtime and never by a model's text; and
 * the events of a run, as they are told and as a line of the timeline spells them.
 */
import { z } from "zod";
import { StoredUsage, totalTokens, Usage, usageText, ZERO_USAGE } from "./content.ts";
import { OpenQuestion } from "./message.ts";

/** How a run or an agent ended. */
export const ReplyStatus = z.enum(["succeeded", "partial", "failed", "cancelled"]);
/** See {@link ReplyStatus}. */
export type ReplyStatus = z.infer<typeof ReplyStatus>;

/** Which stop reasons belong to which status. */
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

/** Why a run stopped. */
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

/** The status to which a stop reason belongs. */
export function statusOf(reason: StopReason): ReplyStatus {
  for (const status of ReplyStatus.options) {
    if ((STOP_REASONS[status] as readonly string[]).includes(reason)) return status;
  }
  return "failed";
}

/** The summary of a run that never wrote a word. */
export const NO_SUMMARY = "(no summary)";

/** One threshold that was crossed: what, where the threshold lay, and the value that crossed it. */
export const Alert = z.object({
  kind: z.enum(["turns", "tokens", "tool_calls", "cost_usd"]),
  threshold: z.number(),
  value: z.number(),
});
/** See {@link Alert}. */
export type Alert = z.infer<typeof Alert>;

/** Most files that a reply lists. */
export const MOST_LEFT_FILES = 64;

/** A file that a run left. `path` is relative to the workspace; `sha256`: in hex, absent beyond the first 32 MB. */
export const LeftFile = z.object({
  path: z.string(),
  size_bytes: z.int().min(0),
  sha256: z.string().optional(),
});
/** See {@link LeftFile}. */
export type LeftFile = z.infer<typeof LeftFile>;

/**
 * What a run came to, or has come to so far. `summary`: last non-empty text of the run, at most 5,000 code points;
 * `tokens`: sum of the four fields of `usage`; `tools_called`: calls by tool name; `duration_ms`: running time;
 * `cost_usd`: 0 where the model's price is unknown; `files`: what stood in the workspace at the end of the run, by path, at
 * most {@link MOST_LEFT_FILES}; `more_files`: there are others, which `Parent.files` lists.
 */
export const ReplyBody = z.object({
  summary: z.string(),
  truncated: z.boolean(),
  output: z.unknown().optional(),
  turns: z.int().min(0),
  tokens: z.int().min(0),
  usage: Usage,
  cost_usd: z.number().min(0),
  tools_called: z.record(z.string(), z.int().min(1)),
  /** Tools of its allowlist that its worker did not have. */
  unknown_tools: z.array(z.string()).optional(),
  alerts: z.array(Alert),
  /** How often the conversation did not fit any more and was summed up by the model: a turn each, told here where it is not 0. */
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
/** Members of a body that few runs have: with their names, behind the others. */
const RareMembers = ReplyBody.omit({
  ...{ summary: true, tokens: true, usage: true },
  ...{ turns: true, cost_usd: true, tools_called: true, model: true, duration_ms: true },
}).extend({ truncated: z.boolean().default(false), alerts: z.array(Alert).default([]) });

/**
 * What a run has come to, without its text, as it is stored with every turn: the values of {@link progressJson}, by position.
 * `said`: the message of the log whose text is the summary, where none stands beside the progress; 0: no message.
 */
export const RunProgress = z
  .tuple([turns, cost_usd, duration_ms, StoredUsage, tools_called, model, z.int().min(0)], RareMembers)
  .transform(([turns, cost_usd, duration_ms, usage, tools_called, model, said, rare]) => ({
    ...{ turns, cost_usd, duration_ms, usage, tools_called, model, said, truncated: false, alerts: [] },
    ...rare,
    tokens: totalTokens(usage),
  }));
/** What a run has come to, without its text: small, absolute counters; `said`: see {@link RunProgress}. */
export type RunProgress = Omit<ReplyBody, "summary"> & { said?: number | undefined };

/** A progress as {@link RunProgress} reads it, well-formed and without what follows from the rest. */
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

/** A body as the verbs take it: the counters, and the text apart. */
export function partsOf({ summary, ...progress }: ReplyBody): { progress: RunProgress; summary: string } {
  return { progress, summary };
}

const head = {
  /** Of a message `<uid>.<run>.<message>/<call id>`, of a question `<uid>.<message>/<call id>`; else that of `replyIdOf`. */
  reply_id: z.string(),
  parent_id: z.string(),
  agent_id: z.string(),
  name: z.string(),
  run: z.int().min(0),
  agent_status: z.enum(["idle", "queued", "running", "waiting", "ended"]),
  created_at: z.string(),
};

/**
 * How a run or an agent ended. `kind`: `reply` is a run's result, `ended` says that the agent ended without one.
 * `message_ids`: ids of the messages that the run has read, oldest first; a task's prompt has its request key as its id.
 * `undelivered`: ids of messages that no run will read any more. `created_at`: ISO 8601, Redis' clock.
 */
export const Reply = ReplyBody.extend({
  ...head,
  kind: z.enum(["reply", "ended"]),
  status: ReplyStatus,
  stop_reason: StopReason,
  message_ids: z.array(z.string()).default([]),
  undelivered: z.array(z.string()).optional(),
});
/** See {@link Reply}. */
export type Reply = z.infer<typeof Reply>;

/** An interim word of a sub-agent that is still at work. */
export const Interim = z.object({ ...head, kind: z.literal("message"), text: z.string() });
/** See {@link Interim}. */
export type Interim = z.infer<typeof Interim>;

/** A sub-agent asks and waits. `answer_by`: ISO 8601, Redis' clock; from then on its default holds. */
export const Question = OpenQuestion.extend({ ...head, kind: z.literal("question"), answer_by: z.string() });
/** See {@link Question}. */
export type Question = z.infer<typeof Question>;

/** One entry of a parent's reply channel. */
export const ChannelEntry = z.union([Reply, Interim, Question]);
/** See {@link ChannelEntry}. */
export type ChannelEntry = z.infer<typeof ChannelEntry>;

// Progress events: live hints for people and dashboards. They may be lost; replies and reads are the truth.

const base = {
  v: z.literal(1),
  agent_id: z.string(),
  name: z.string(),
  run: z.int().min(0),
  turn: z.int().min(0),
};

/** One progress event; `turn` counts the model calls of the run from 1. */
export const ProgressEvent = z.discriminatedUnion("type", [
  z.object({
    ...base,
    type: z.literal("run_started"),
    max_turns: z.int(),
    worker: z.string(),
    /** The beginning of what the run was asked; absent where another worker goes on with it. */
    prompt: z.string().optional(),
  }),
  z.object({ ...base, type: z.literal("turn_started") }),
  z.object({ ...base, type: z.literal("text_delta"), text: z.string() }),
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
  /** What was said before message `before` did not fit any more: a summary of the model stands for it. */
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

/** An escape in JSON: a lone surrogate, all others as a whole so that `\\ud800`, text about one, is left alone. */
const ESCAPE = /\\(?:u(d[89a-f][0-9a-f]{2})|.)/g;

/**
 * `json` without lone surrogates. The Messages API refuses the whole of a body for one, and Redis' scripts cannot decode
 * it. They come from texts cut in the middle of a character and from models; of what `JSON.stringify` writes nothing else
 * is an escape that begins with `\ud`.
 */
export function wellFormedJson(json: string): string {
  if (!json.includes("\\ud")) return json;
  return json.replace(ESCAPE, (spelled, surrogate) => (surrogate === undefined ? spelled : "\uFFFD"));
}

type Specific<T> = T extends unknown ? Omit<T, "v" | "agent_id" | "name" | "run"> : never;
/** An event of a run; the verb that takes it along adds what names the run. */
export type RunEvent = Specific<ProgressEvent>;

/**
 * The four kinds of events that every turn has are lists in a line of the timeline, since they are written with every commit: a
 * mark for the kind, the turn, then the values in the order below. All others are objects. Mark → kind, names of the values.
 */
const LISTED: ReadonlyMap<unknown, readonly [type: RunEvent["type"], ...names: string[]]> = new Map([
  ["t", ["turn_started"]],
  ["f", ["turn_finished", "tokens", "cost_usd"]],
  ["s", ["tool_started", "tool_use_id", "tool"]],
  ["e", ["tool_finished", "tool_use_id", "tool", "duration_ms", "is_error"]],
]);
/** What a list ends before. */
const UNSAID: ReadonlyMap<string, unknown> = new Map([["is_error", false]]);

/** `event` as a line holds it. */
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

/** `events` as a verb takes them: one line of the timeline. */
export function eventLine(events: readonly RunEvent[]): string {
  return events.map(eventText).join(",");
}

/** The members of an event that a line holds, unchecked; undefined where this version does not know the spelling. */
export function eventMembers(stored: unknown): object | undefined {
  if (!Array.isArray(stored)) return typeof stored === "object" && stored !== null ? stored : undefined;
  const [mark, turn, ...values]: readonly unknown[] = stored;
  const [type, ...names] = LISTED.get(mark) ?? [];
  if (type === undefined) return undefined;
  return { type, turn, ...Object.fromEntries(names.map((name, i) => [name, values[i] ?? UNSAID.get(name)])) };
}

/** The stream id in front of the oldest entry. */
export const OLDEST = "0-0";

/** Whether stream id `a` is smaller than `b`. */
export function isBehind(a: string, b: string): boolean {
  const [aMs = 0, aSeq = 0] = a.split("-").map(Number);
  const [bMs = 0, bSeq = 0] = b.split("-").map(Number);
  return aMs === bMs ? aSeq < bSeq : aMs < bMs;
}
