/**
 * Turns any error of a provider call into a {@link ModelFailure}: what happened, whether to retry, when. Also defines the
 * adapter's own errors, which never leave the adapter. Pure.
 */
import { AnthropicError, APIConnectionError, APIConnectionTimeoutError, APIError } from "@anthropic-ai/sdk";
import { clip } from "../../../shared/protocol/text.ts";
import { MASK, withoutLogins, withoutSecrets } from "../../../shared/secrets.ts";
import type { FailureKind, ModelFailure } from "../model.ts";

/** The first `code` string found on `error` or along its `cause` chain. */
function errorCode(error: unknown): string | undefined {
  const seen = new Set<unknown>();
  for (let at = error; typeof at === "object" && at !== null && !seen.has(at); ) {
    seen.add(at);
    if ("code" in at && typeof at.code === "string" && at.code !== "") return at.code;
    at = "cause" in at ? at.cause : undefined;
  }
  return undefined;
}

/** Input of the classification besides the error. */
export interface FailureContext {
  /** Wall-clock milliseconds, for a `retry-after` date in a response without a `Date` header. */
  nowMs: number;
}

/** Failure kinds for which the same request may succeed later. */
const RETRYABLE: ReadonlySet<FailureKind> = new Set([
  "rate_limited",
  "overloaded",
  "server_error",
  "network",
  "timeout",
  "invalid_response",
]);

const KIND_BY_STATUS: ReadonlyMap<number, FailureKind> = new Map([
  [401, "authentication"],
  [402, "billing"],
  [403, "permission"],
  [404, "not_found"],
  [408, "timeout"],
  [409, "server_error"],
  [413, "context_window"],
  [429, "rate_limited"],
  [499, "network"],
  [504, "timeout"],
  [529, "overloaded"],
]);

/** Kinds by `error.type` of an error event inside a stream, where the HTTP status is 200. */
const KIND_BY_TYPE: ReadonlyMap<string, FailureKind> = new Map([
  ["invalid_request_error", "invalid_request"],
  ["authentication_error", "authentication"],
  ["billing_error", "billing"],
  ["permission_error", "permission"],
  ["not_found_error", "not_found"],
  ["request_too_large", "context_window"],
  ["rate_limit_error", "rate_limited"],
  ["overloaded_error", "overloaded"],
  ["timeout_error", "timeout"],
]);

/** Rate-limit codes for which waiting does not help: the operator has to raise a limit. */
const SPEND_LIMIT_CODES: ReadonlySet<string> = new Set([
  "contract_spend_limit_reached",
  "enforced_spend_limit_reached",
]);

const TOO_LONG =
  /prompt (?:is )?too long|context (?:window|length|limit)|maximum context|input is too long|too many (?:input |prompt )?tokens/i;
const NO_CREDIT = /credit balance is too low/i;

/** Certificates and settings that do not fit stay so within a run, so these errors are not retried; other network errors are. */
const TLS_CODE = /^(?:CERT_|ERR_TLS_|ERR_SSL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_(?:GET|VERIFY)_)/;
/** TLS errors of one connection: the other side is in trouble, or bytes were lost on the way. */
const TLS_MISHAP = /INTERNAL_ERROR|BAD_RECORD_MAC|BAD_DECRYPT|UNEXPECTED_EOF|TIMEOUT/;
const TIMEOUT_CODE = /^(?:ETIMEDOUT|UND_ERR_(?:CONNECT|HEADERS|BODY)_TIMEOUT)$/;
const UNREADABLE_CODE = /^(?:HPE_|UND_ERR_RES_|UND_ERR_INFO)/;

/** Status of a response whose content is the error. */
const HTTP_OK = 200;

/** Classifies any value thrown by a call. Total: an unknown error is an `invalid_response`, which is retryable. */
export function classify(error: unknown, context: FailureContext): ModelFailure {
  if (error instanceof APIConnectionError) return classifyConnection(error);
  if (error instanceof APIError) return classifyResponse(error, context);
  return classifyLocal(error);
}

function classifyResponse(error: APIError, context: FailureContext): ModelFailure {
  const kind = responseKind(error);
  const advisedAgainst = error.headers?.get("x-should-retry") === "false";
  const delayMs = error.headers && retryAfterMs(error.headers, context.nowMs);
  // A time-out without a status is one of this side, and charged.
  const status = error.status ?? (kind === "timeout" ? HTTP_OK : undefined);
  return {
    ...failure(kind, withRequestId(wording(error), error.requestID)),
    retryable: RETRYABLE.has(kind) && !advisedAgainst,
    ...(delayMs !== undefined && { retryAfterMs: delayMs }),
    ...(status !== undefined && { httpStatus: status }),
  };
}

function responseKind(error: APIError): FailureKind {
  const { status, type, errorCode: code } = error;
  const text = wording(error);
  if (code !== null && SPEND_LIMIT_CODES.has(code)) return "billing";
  const byType = type === null ? undefined : KIND_BY_TYPE.get(type);
  if (status === undefined) return refine(byType ?? "server_error", text);
  if (status >= 500 && byType === "overloaded") return byType;
  const fallback = status >= 500 ? "server_error" : (byType ?? "invalid_request");
  return refine(KIND_BY_STATUS.get(status) ?? fallback, text);
}

/** Returns the provider's sentence; for a body of another shape, the SDK's text of it. */
function wording(error: APIError): string {
  const said: unknown = error.apiMessage;
  return typeof said === "string" && said !== "" ? said : error.message;
}

function refine(kind: FailureKind, text: string): FailureKind {
  if (kind !== "invalid_request") return kind;
  if (NO_CREDIT.test(text)) return "billing";
  return TOO_LONG.test(text) ? "context_window" : kind;
}

function classifyConnection(error: APIConnectionError): ModelFailure {
  if (error instanceof APIConnectionTimeoutError) return failure("timeout", error.message);
  if (error.cause === undefined) return failure("network", error.message);
  return classifyLocal(error.cause);
}

function classifyLocal(error: unknown): ModelFailure {
  const message = error instanceof Error ? error.message : "something that is no error was thrown";
  const code = errorCode(error);
  if (error instanceof TimeLimitError) return failure("timeout", message);
  if (error instanceof MalformedAnswerError || error instanceof SyntaxError) {
    return failure("invalid_response", message);
  }
  if (code !== undefined) return classifyCode(code, message);
  if (error instanceof AnthropicError) return failure("invalid_response", message);
  if (error instanceof TypeError || error instanceof RangeError) return failure("invalid_request", message);
  return failure("invalid_response", message);
}

function classifyCode(code: string, message: string): ModelFailure {
  const text = message === "" ? code : message.includes(code) ? message : `${message} (${code})`;
  if (code === "ERR_INVALID_URL" || code === "UND_ERR_INVALID_ARG") return failure("invalid_request", text);
  if (TIMEOUT_CODE.test(code)) return failure("timeout", text);
  if (UNREADABLE_CODE.test(code)) return failure("invalid_response", text);
  return { ...failure("network", text), retryable: !TLS_CODE.test(code) || TLS_MISHAP.test(code) };
}

function failure(kind: FailureKind, message: string): ModelFailure {
  return { kind, retryable: RETRYABLE.has(kind), message: redact(message) };
}

function withRequestId(message: string, requestId: string | null | undefined): string {
  return requestId ? `${message} [${requestId}]` : message;
}

/** Reads the delay that a provider asks for: `retry-after-ms`, or `retry-after` in seconds or as a date. Pure. */

const DECIMAL = /^\d+(?:\.\d+)?$/;
/** RFC 9110 dates name a weekday; looser forms that `Date.parse` accepts are rejected here. */
const HTTP_DATE = /^(?:mon|tue|wed|thu|fri|sat|sun)/i;

/**
 * Returns the delay that the response asks for, ms, at least 0; undefined if it has none or an invalid one. A date is
 * compared with the response's own `Date` header, so a wrong local clock does not matter.
 *
 * @param nowMs wall clock, used for a date when the response has no `Date` header
 */
export function retryAfterMs(headers: Headers, nowMs: number): number | undefined {
  const ms = headers.get("retry-after-ms")?.trim();
  if (ms !== undefined && DECIMAL.test(ms)) return finite(Number(ms));
  const value = headers.get("retry-after")?.trim();
  if (value === undefined) return undefined;
  if (DECIMAL.test(value)) return finite(Number(value) * 1000);
  if (!HTTP_DATE.test(value)) return undefined;
  const sentMs = Date.parse(headers.get("date") ?? "");
  return finite(Math.max(0, Date.parse(value) - (Number.isNaN(sentMs) ? nowMs : sentMs)));
}

function finite(ms: number): number | undefined {
  return Number.isFinite(ms) ? Math.ceil(ms) : undefined;
}

// Makes a provider's message safe to store and show: no credentials, one line, bounded. Pure.

/** Longest message that the port returns, in UTF-16 code units. */
export const MAX_MESSAGE_CHARS = 500;

/** Far more than is kept, but too little for a hostile body to cost time. */
const MAX_INSPECTED_CHARS = 8_000;

const CREDENTIALS: readonly [RegExp, string][] = [
  [/\b(bearer|basic)\s+[^\s"',;]+/gi, `$1 ${MASK}`],
  [
    /\b(authorization|x-api-key|api[-_ ]?key|auth[-_ ]?token|password|secret)(["']?\s*[:=]\s*["']?)[^\s"',;]+/gi,
    `$1$2${MASK}`,
  ],
  [/\bsk-[\w-]{6,}/g, MASK],
  [/\beyJ[\w-]{8,}\.[\w.-]+/g, MASK],
  [/\b[\w-]{40,}\b/g, MASK],
];

/**
 * Returns `text` without anything that is or looks like a credential. Replaces control characters and runs of white space by
 * one space, and cuts to {@link MAX_MESSAGE_CHARS}.
 */
export function redact(text: string): string {
  let clean = withoutLogins(clip(withoutSecrets(text), MAX_INSPECTED_CHARS));
  for (const [pattern, replacement] of CREDENTIALS) clean = clean.replace(pattern, replacement);
  return clip(clean.replace(/[\s\p{Cc}]+/gu, " ").trim(), MAX_MESSAGE_CHARS);
}

/** The provider exceeded a time limit: for the whole call, or without a byte. */
export class TimeLimitError extends Error {
  override readonly name = "TimeLimitError";
}

/** This process ended the call. */
export class CallAbortedError extends Error {
  override readonly name = "CallAbortedError";
}

/** The answer is not a usable message: missing parts, too large, unknown deltas. */
export class MalformedAnswerError extends Error {
  override readonly name = "MalformedAnswerError";
}

/** The answer broke off before its end although the connection closed cleanly. */
export class TruncatedStreamError extends Error {
  override readonly name = "TruncatedStreamError";
  /** Read by `classify` as the transport's code for a broken connection. */
  readonly code = "ECONNRESET";
  constructor() {
    super("the response stream ended before the message was complete");
  }
}
