/**
 * The model port: what a run may ask of a language model and what it may get back. Types only.
 *
 * A request is text in the Messages API's own words, since it grows by a few fragments a turn and is sent as it stands:
 * nothing of it is parsed or serialised again. `request.ts` makes the parts.
 */
import type { ContentBlock, JsonObject, Usage } from "../../shared/protocol/content.ts";

/**
 * One call. Everything the provider sees is in here; nothing is remembered between calls. The JSON holds no lone
 * surrogates: the API refuses the whole of a request for one.
 */
export interface ModelRequest {
  /** Provider's model id. */
  model: string;
  /** Members that stay the same for the whole run: finished JSON without braces, made once by `requestHead()`. */
  head: string;
  /** The messages as finished JSON, comma separated, without the brackets. Alternating and complete. */
  messages: string;
  /**
   * Length of `messages` in the call before, which ended with a user message; 0 when there was none. The prompt cache
   * gets a mark there, for a provider finds by itself only what lies a few blocks back.
   */
  cachedLength: number;
  /** Members of this call only (`tool_choice`, `output_config`): finished JSON without braces, or "". */
  extra: string;
  /** Names this purchase: booked under it, and sent as `Idempotency-Key` unless there is an `idempotencyKey`. */
  purchaseId: string;
  /** Sent as `Idempotency-Key` where an earlier request of this purchase, which brought nothing, was another. */
  idempotencyKey?: string;
  /** Sent as the header `anthropic-beta`: what the provider must be asked to take. */
  beta?: string;
  /** Upper bound of output tokens, as `head` has it; bounds the bytes of the answer too. */
  maxTokens: number;
  /** Sent as the header `traceparent`; absent: the provider learns of no trace. */
  traceparent?: string;
  /** Whether the answer is to come piece by piece. Costs CPU: only when something listens. */
  stream: boolean;
}

/** A tool as the model sees it; `input_schema` is JSON Schema of type object. */
export interface ToolSchema {
  name: string;
  description: string;
  input_schema: JsonObject;
}

/** One message of the conversation. */
export interface ModelMessage {
  role: "user" | "assistant";
  content: ContentBlock[];
}

/** A caller's hold on its call. One object may serve all calls of a run, one after the other. */
export interface CallControl {
  /**
   * Asked just before the first byte of the request leaves; false ends the call as `aborted` and nothing is sent. A
   * process that was stopped wakes up in the middle of preparing its call, before any timer can tell it so.
   */
  mayBegin(): boolean;
  /** Set by the model while a call is under way, null otherwise: ends the call at once, as `aborted`. */
  abortCall: ((reason: string) => void) | null;
  /** Takes the text that has come since it was called last. Called synchronously; what it throws is ignored. */
  onText?: ((text: string) => void) | undefined;
  /** Monotonic ms (of the model's clock) at which the call is cut off, as `aborted`. */
  deadlineMs: number;
}

/** A complete answer: well-formed, bounded, and fit to be sent back. */
export interface ModelAnswer {
  /** `content` as JSON, for the log and for the next request. */
  contentJson: string;
  /**
   * The provider's blocks, unknown members included; may be empty. Ids of tool calls are not empty, at most 256
   * characters and unique within the answer, names at most 128. A call in `refusedCalls` may have an empty input.
   */
  content: readonly ContentBlock[];
  /**
   * Calls that must not be executed, by id, and for each the sentence that its error result tells the model: the input
   * is no JSON object, was cut off, or the answer has too many calls.
   */
  refusedCalls: ReadonlyMap<string, string>;
  /** The provider's stop reason as text: unknown ones must reach the loop, which fails closed. */
  stopReason: string;
  /** What the provider says of a refusal: one line, at most 256 UTF-16 code units. */
  refusal?: string | undefined;
  /** The model that answered, as the provider names it. */
  model: string;
  usage: Usage;
}

/** Kinds of a call that broke off without an answer: what stood between may have ended a connection that was silent. */
export const CUT_OFF_KINDS: ReadonlySet<string> = new Set<FailureKind>(["timeout", "network"]);

/** Why a call brought no answer. */
export type FailureKind =
  | "rate_limited"
  | "overloaded"
  | "server_error"
  | "network"
  | "timeout"
  | "context_window"
  | "invalid_request"
  | "authentication"
  | "permission"
  | "billing"
  | "not_found"
  | "invalid_response";

/** A call that brought no answer. */
export interface ModelFailure {
  kind: FailureKind;
  /** Whether the same request may succeed later. */
  retryable: boolean;
  /** How long the provider asked us to wait, in milliseconds; absent when it did not say or said nonsense. */
  retryAfterMs?: number;
  /** HTTP status of an error response; absent for failures below HTTP and inside a stream after a 200. */
  httpStatus?: number;
  /** For people: no credentials, one line, at most 500 UTF-16 code units. */
  message: string;
}

/**
 * How a call ended. `usage` on a call without an answer says that the provider had begun to answer: the call was
 * bought, for the tokens reported so far (possibly none).
 */
export type CallOutcome =
  | { status: "answer"; answer: ModelAnswer }
  | { status: "failed"; failure: ModelFailure; usage?: Usage }
  | { status: "aborted"; usage?: Usage };

/** A language model. */
export interface Model {
  /** Makes one call, without retrying. Never rejects: every end is a {@link CallOutcome}. */
  call(request: ModelRequest, control: CallControl): Promise<CallOutcome>;
  /**
   * Names what calls with `model` have in common: the provider, the credential (never itself: a digest) and the model.
   * What one worker learns of the provider holds for every model of the same name. Default: one name for each model id.
   */
  limiterName?(model: string): string;
  /** Aborts what is running and closes every connection. Idempotent; later calls end as `aborted`. */
  stop(): Promise<void>;
}
