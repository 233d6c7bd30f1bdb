/**
 * The model port: requests to a language model and their outcomes. Types only.
 *
 * A request is JSON text in the form of the Messages API. It grows by a few fragments a turn and is sent unchanged: no part
 * is parsed or serialised again. `request.ts` makes the parts.
 */
import type { ContentBlock, JsonObject, Usage } from "../../shared/protocol/content.ts";

/**
 * One call. It holds everything that the provider sees; the model keeps no state between calls. The JSON holds no lone
 * surrogates, because the API refuses a whole request for one.
 */
export interface ModelRequest {
  /** Provider's model id. */
  model: string;
  /** Members that stay the same for the whole run: JSON without braces, made once by `requestHead()`. */
  head: string;
  /** The messages as JSON, comma separated, without the brackets. Alternating and complete. */
  messages: string;
  /**
   * Length of `messages` in the previous call, which ended with a user message; 0 if there was none. The prompt cache gets a
   * mark there, because a provider only searches a few blocks back for a cached prefix.
   */
  cachedLength: number;
  /** Members of this call only (`tool_choice`, `output_config`): JSON without braces, or "". */
  extra: string;
  /** Id of this purchase: books it. */
  purchaseId: string;
  /**
   * Sent as `Idempotency-Key`; default `purchaseId`. Another one if an earlier request of this purchase had another body and
   * brought no answer.
   */
  idempotencyKey?: string;
  /** Value of the header `anthropic-beta`: beta features that this request uses. */
  beta?: string;
  /** Upper bound of output tokens, the same as in `head`; also bounds the bytes of the answer. */
  maxTokens: number;
  /** Value of the header `traceparent`; absent: no trace is sent to the provider. */
  traceparent?: string;
  /** True if the answer is streamed. Costs CPU: use it only if there is a listener. */
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

/** The caller's control over its call. One object may serve all calls of a run, one after the other. */
export interface CallControl {
  /**
   * Called just before the first byte of the request is sent; false ends the call as `aborted` and sends nothing. A process
   * that was suspended may resume while it prepares a call, before any timer fires.
   */
  mayBegin(): boolean;
  /** Set by the model while a call is in progress, otherwise null: ends the call at once, as `aborted`. */
  abortCall: ((reason: string) => void) | null;
  /** Receives the text that has arrived since its last call. Called synchronously; its exceptions are ignored. */
  onText?: ((text: string) => void) | undefined;
  /** Monotonic ms (of the model's clock) at which the call ends as `aborted`. */
  deadlineMs: number;
}

/** A complete answer: well-formed, bounded, and valid as part of the next request. */
export interface ModelAnswer {
  /** `content` as JSON, for the log and for the next request. */
  contentJson: string;
  /**
   * The provider's blocks, with members unknown here; may be empty. Ids of tool calls have 1 to 256 characters and are
   * unique within the answer; names have at most 128. A call in `refusedCalls` may have an empty input.
   */
  content: readonly ContentBlock[];
  /**
   * Calls that must not be executed, by id, each with the error text for the model. Reasons: the input is no JSON object or
   * was cut off, or the answer has too many calls.
   */
  refusedCalls: ReadonlyMap<string, string>;
  /** The provider's stop reason as text, because unknown ones must reach the loop, which fails closed. */
  stopReason: string;
  /** The provider's explanation of a refusal: one line, at most 256 UTF-16 code units. */
  refusal?: string | undefined;
  /** The model that answered, as the provider names it. */
  model: string;
  usage: Usage;
}

/** Kinds of a call that broke off without an answer: a proxy may have closed a silent connection. */
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
  /** True if the same request may succeed later. */
  retryable: boolean;
  /** Delay that the provider asked for, ms; absent if it gave none or an invalid one. */
  retryAfterMs?: number;
  /**
   * HTTP status of an error response; absent for failures below HTTP and inside an answer after a 200. A time-out that the
   * provider reports inside an answer has 200: one without a status is one of this side.
   */
  httpStatus?: number;
  /** For people: no credentials, one line, at most 500 UTF-16 code units. */
  message: string;
}

/**
 * How a call ended. `usage` without an answer means that the provider had begun to answer: the call is billed for the tokens
 * reported so far (possibly none).
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
   * Name that all calls with `model` share which have the same provider, credential (as a digest) and model. Limits of the
   * provider that one worker finds apply to all calls of the same name. Default: one name for each model id.
   */
  limiterName?(model: string): string;
  /** Aborts the calls in progress and closes every connection. Idempotent; later calls end as `aborted`. */
  stop(): Promise<void>;
}
