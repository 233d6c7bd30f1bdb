/** What reaches the parent: status and stop reason from closed sets, computed by the runtime and never by a model's text. */
import { z } from "zod";
import { Usage } from "./content.ts";
import { OpenQuestion } from "./question.ts";
import { wellFormedJson } from "./well-formed-json.ts";

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
  failed: ["refusal", "model_error", "worker_lost", "max_age"],
  cancelled: ["destroyed", "idle"],
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

/**
 * What a run came to, or has come to so far. `summary`: last non-empty text of the run, at most 5,000 code points;
 * `tokens`: sum of the four fields of `usage`; `tools_called`: calls by tool name; `duration_ms`: running time;
 * `cost_usd`: 0 where the model's price is unknown.
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
  alerts: z.array(Alert),
  duration_ms: z.int().min(0),
  model: z.string(),
  /** One sentence about a failure, for people. */
  error: z.string().optional(),
});
/** See {@link ReplyBody}. */
export type ReplyBody = z.infer<typeof ReplyBody>;

/** A body as it is stored: `settle` reads in it what the run used, also when a text in it is cut within a character. */
export function bodyJson(body: ReplyBody): string {
  return wellFormedJson(JSON.stringify(body));
}

const head = {
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
 * `undelivered`: ids of messages that nobody will read any more. `created_at`: ISO 8601, Redis' clock.
 */
export const Reply = ReplyBody.extend({
  ...head,
  kind: z.enum(["reply", "ended"]),
  status: ReplyStatus,
  stop_reason: StopReason,
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
