/** The model port: what the loop may ask of a language model and what it may get back. Types only. */
import type { ContentBlock, JsonObject, Usage } from "../../shared/protocol/content.ts";

/** One call. Everything the provider sees is in here; nothing is remembered between calls. */
export interface ModelRequest {
  /** Provider's model id. */
  model: string;
  /** System prompt; empty means none. Byte-identical for all agents of one kind, or prompt caching is lost. */
  system: string;
  /** Tools on offer, in a stable order. */
  tools: ToolSchema[];
  /** `none` keeps the tools in the (cached) prefix but forbids their use: the hand-back call. */
  toolChoice: "auto" | "none";
  /** The conversation so far, alternating and complete: every `tool_use` has its `tool_result`. */
  messages: ModelMessage[];
  /** Upper bound of output tokens of this call. */
  maxTokens: number;
  /** Sent as `Idempotency-Key`, so that a provider or the offline ledger can tell a repetition. */
  idempotencyKey?: string;
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

/** A complete answer. Blocks are the provider's own, to be sent back unchanged. */
export interface ModelTurn {
  /** May be empty: a model can end its turn without a word. */
  content: ContentBlock[];
  /** The provider's stop reason as text: unknown ones must reach the loop, which fails closed. */
  stopReason: string;
  /** The model that answered, as the provider names it. */
  model: string;
  usage: Usage;
}

/** Why a call brought no turn. */
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
  | "too_large"
  | "invalid_response";

/** A call that brought no turn. */
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
 * How a call ended. `usage` on an unfinished call is what the provider had already reported: it was bought.
 */
export type ModelOutcome =
  | { status: "turn"; turn: ModelTurn }
  | { status: "failed"; failure: ModelFailure; usage?: Usage }
  | { status: "aborted"; usage?: Usage };

/** What a caller gives along with a request. */
export interface CallOptions {
  /** Ends the call at once. A fresh signal per call: listeners on a shared one pile up. */
  signal: AbortSignal;
  /**
   * Asked at the last moment, before the first byte of the request leaves; false ends the call as `aborted`. A process
   * that was stopped wakes up in the middle of preparing its call, and before any signal can tell it so.
   */
  mayBegin?: () => boolean;
  /** Receives text as it streams in. Called synchronously; what it throws is ignored. */
  onText?: (delta: string) => void;
}

/** A language model. */
export interface Model {
  /** Makes one call, without retrying. Never rejects: every end is a {@link ModelOutcome}. */
  call(request: ModelRequest, options: CallOptions): Promise<ModelOutcome>;
  /**
   * Names what calls with `model` have in common: the provider, the credential (never itself: a digest) and the model. What
   * one worker learns of the provider holds for every model of the same name. Default: one name for each model id.
   */
  gateName?(model: string): string;
  /** Aborts what is running and closes every connection. Idempotent; later calls end as `aborted`. */
  stop(): Promise<void>;
}
