/** The JSON schema of a scenario, which scripts the offline model for tests. Pure. */
import { z } from "zod";
import { OfflineModelError } from "./exchange.ts";
import { TokenUsage } from "./wire.ts";

const DelayMs = z.int().min(0).max(3_600_000);
const Pattern = z.string().refine(isPattern, "is not a valid regular expression");
const Scripted = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("text"), text: z.string() }),
  z.looseObject({
    type: z.literal("tool_use"),
    name: z.string(),
    input: z.record(z.string(), z.unknown()),
    id: z.string().optional(),
  }),
  z.looseObject({
    type: z.literal("thinking"),
    thinking: z.string(),
    signature: z.string().default("c2NyaXB0ZWQ="),
  }),
  z.looseObject({ type: z.literal("redacted_thinking"), data: z.string() }),
]);

/**
 * Faults inside a stream. The `…AfterChunks` counters count server-sent events; `message_start` is the first one, and
 * 0 breaks right after the response headers. If several are set, only the smallest takes effect. On a call without `stream`,
 * an error becomes a plain error answer, a stall never answers, and reset and truncate reset the connection.
 */
export const StreamFailure = z.strictObject({
  /** Send an `error` event and end the response. */
  errorAfterChunks: z.int().min(0).optional(),
  /** The type of that error. Default `overloaded_error`. */
  errorType: z.string().min(1).optional(),
  /** Send nothing more and keep the connection open until the client disconnects. */
  stallAfterChunks: z.int().min(0).optional(),
  /** Destroy the connection. */
  resetAfterChunks: z.int().min(0).optional(),
  /** End the response normally, but without the remaining events. */
  truncateAfterChunks: z.int().min(0).optional(),
  /** Cut the JSON of every tool input in half (`input` becomes that text on a call without `stream`). */
  invalidJsonInput: z.boolean().optional(),
  /** Pause before every event. */
  chunkDelayMs: DelayMs.optional(),
});
/** A parsed stream failure. */
export type StreamFailure = z.infer<typeof StreamFailure>;

/** An error answer; `type` and `message` default to those of the status. */
export const ScriptedError = z.strictObject({
  status: z.int().min(400).max(599),
  type: z.string().min(1).optional(),
  message: z.string().optional(),
  headers: z.record(z.string(), z.string()).optional(),
});
/** A parsed error answer. */
export type ScriptedError = z.infer<typeof ScriptedError>;

/** A failure that is played once: an error answer, a connection reset before the first byte, or a broken stream. */
export const Failure = z.union(
  [ScriptedError, z.strictObject({ reset: z.literal(true) }), z.strictObject({ stream: StreamFailure })],
  { error: 'must be {"status": 529}, {"reset": true} or {"stream": …}' },
);
/** A parsed failure. */
export type Failure = z.infer<typeof Failure>;

/** One assistant turn. Strings may contain `{{last_tool_result}}`, `{{user}}` (newest user text) and `{{turn}}`. */
export const ScriptedTurn = z.strictObject({
  /** Default: empty, the empty answer. Tool calls without an id get one. */
  content: z.array(Scripted).default([]),
  /** Any text. Default: `tool_use` if the content has a tool call, else `end_turn`. */
  stop_reason: z.string().min(1).optional(),
  /** Replaces single counts of the estimate. */
  usage: TokenUsage.partial().optional(),
  /** Time before the first byte, ms; default: that of the server. */
  latencyMs: DelayMs.optional(),
  /** Answer every call with this error. */
  error: ScriptedError.optional(),
  /** Each call plays one of these before the answer; counted per conversation and turn. */
  failures: z.array(Failure).optional(),
  stream: StreamFailure.optional(),
});
/** A parsed turn. */
export type ScriptedTurn = z.infer<typeof ScriptedTurn>;

const TextMatch = z.union([z.string(), z.strictObject({ regex: Pattern })]);

/**
 * A conversation's script. Turn k answers the request with k assistant messages, so a script survives a restart of the server
 * or the client. After the last turn it repeats that turn (`repeat`) or answers 400.
 */
export const Script = z.strictObject({
  /** Substring or regular expression of the first user text and the system prompt; both must match. Default: matches all. */
  match: z.strictObject({ user: TextMatch.optional(), system: TextMatch.optional() }).optional(),
  turns: z.array(ScriptedTurn).min(1),
  repeat: z.boolean().optional(),
  /** Maximum input tokens by the server's estimate; a longer request gets the error "prompt is too long". */
  windowTokens: z.int().min(1).optional(),
  /** Answer to all requests with `tool_choice: none`. Default: the text of the turn, else an answer by rule. */
  hand_back: ScriptedTurn.optional(),
});
/** A parsed script. */
export type Script = z.infer<typeof Script>;

/** One script or a list: the first that matches a conversation is played; without a match the rules answer. */
export const Scenario = z.union([Script, z.array(Script).min(1)]);
/** A scenario before parsing. */
export type Scenario = z.input<typeof Scenario>;

/** The minimal form of a scenario, for errors; docs/operations.md has the full form. */
const SCENARIO_FORM =
  '{"turns":[{"content":[{"type":"text","text":"…"}]}]}, or a list of such (docs/operations.md)';

/**
 * Parses a scenario; `what` names it in the error. Throws `OfflineModelError` `invalid_scenario` with all problems and their
 * paths, and the form.
 */
export function parseScenario(scenario: unknown, what = "The scenario"): Script[] {
  const parsed = Array.isArray(scenario)
    ? z.array(Script).min(1).safeParse(scenario)
    : Script.safeParse(scenario);
  if (parsed.success) return Array.isArray(parsed.data) ? parsed.data : [parsed.data];
  const problems = parsed.error.issues.map(
    (issue) => `${issue.path.join(".") || "scenario"}: ${issue.message}`,
  );
  throw new OfflineModelError(
    "invalid_scenario",
    `${what} cannot be played: ${problems.join("; ")}. Write ${SCENARIO_FORM}.`,
  );
}

function isPattern(source: string): boolean {
  try {
    new RegExp(source, "u");
    return true;
  } catch {
    return false;
  }
}
