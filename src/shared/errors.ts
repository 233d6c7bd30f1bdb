/**
 * The catalogue of errors: every refusal has a code, says whether a retry helps, and tells the caller what to do. A tool's
 * message about its failure is no refusal, because the model reads it.
 */
import { withoutSecrets, withoutSecretsIn } from "./secrets.ts";

interface Kind {
  retryable: boolean;
  httpStatus: number;
}

/** All codes. Each says whether the same call may succeed later, and has an HTTP status. */
export const ERRORS = {
  invalid_input: { retryable: false, httpStatus: 400 },
  invalid_config: { retryable: false, httpStatus: 500 },
  unauthorized: { retryable: false, httpStatus: 401 },
  forbidden: { retryable: false, httpStatus: 403 },
  not_found: { retryable: false, httpStatus: 404 },
  unknown_webhook: { retryable: false, httpStatus: 404 },
  unknown_key: { retryable: false, httpStatus: 404 },
  method_not_allowed: { retryable: false, httpStatus: 405 },
  too_large: { retryable: false, httpStatus: 413 },
  unsupported_media_type: { retryable: false, httpStatus: 415 },
  rate_limited: { retryable: true, httpStatus: 429 },
  unknown_price: { retryable: false, httpStatus: 400 },
  nested_spawn: { retryable: false, httpStatus: 403 },
  unknown_definition: { retryable: false, httpStatus: 404 },
  unknown_file: { retryable: false, httpStatus: 404 },
  unknown_agent: { retryable: false, httpStatus: 404 },
  unknown_transcript: { retryable: false, httpStatus: 404 },
  unknown_schedule: { retryable: false, httpStatus: 404 },
  unknown_question: { retryable: false, httpStatus: 404 },
  already_answered: { retryable: false, httpStatus: 409 },
  agent_ended: { retryable: false, httpStatus: 409 },
  conflict: { retryable: false, httpStatus: 409 },
  quota_exceeded: { retryable: true, httpStatus: 429 },
  log_full: { retryable: false, httpStatus: 409 },
  inbox_full: { retryable: true, httpStatus: 429 },
  redis_unavailable: { retryable: true, httpStatus: 503 },
  outcome_unknown: { retryable: true, httpStatus: 503 },
  no_worker: { retryable: true, httpStatus: 503 },
  timed_out: { retryable: true, httpStatus: 503 },
  run_failed: { retryable: false, httpStatus: 500 },
  protocol_violation: { retryable: false, httpStatus: 500 },
  invalid_tool: { retryable: false, httpStatus: 500 },
  setup_failed: { retryable: false, httpStatus: 500 },
  closed: { retryable: false, httpStatus: 503 },
} as const satisfies Record<string, Kind>;

/** See {@link ERRORS}. */
export type ErrorCode = keyof typeof ERRORS;

/**
 * The error of this package. `message` is one sentence that says what to do. `details` holds the facts, e.g.
 * `{ request_key }` of an `outcome_unknown`: the same call with that key is safe.
 */
export class SubagentError extends Error {
  override readonly name = "SubagentError";
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, sentence: string, details: Record<string, unknown> = {}, cause?: unknown) {
    super(withoutSecrets(sentence), cause === undefined ? undefined : { cause: printableCause(cause) });
    this.code = code;
    this.details = withoutSecretsIn(details);
  }

  /** True if the same call may succeed later. */
  get retryable(): boolean {
    return ERRORS[this.code].retryable;
  }

  /** HTTP status of the code. */
  get httpStatus(): number {
    return ERRORS[this.code].httpStatus;
  }
}

const MOST_CAUSES = 5;

/** Copy of a cause that may be shown; it has the name of the original error. */
class Cause extends Error {}

/**
 * Returns a cause with only its name, message, stack, code and causes. Clients keep more in their errors: those of Redis the
 * arguments of the failed command, also of AUTH; others the headers of the request.
 */
function printableCause(cause: unknown, depth = 0): unknown {
  if (!(cause instanceof Error)) return messageOf(cause);
  const shown = new Cause(withoutSecrets(cause.message));
  const { stack = "", code } = cause as NodeJS.ErrnoException;
  const hidden = { enumerable: false, configurable: true, writable: true };
  Object.defineProperties(shown, {
    name: { ...hidden, value: withoutSecrets(cause.name) },
    stack: { ...hidden, value: withoutSecrets(stack) },
  });
  if (typeof code === "string") Object.assign(shown, { code: withoutSecrets(code) });
  if (cause.cause !== undefined && depth < MOST_CAUSES) shown.cause = printableCause(cause.cause, depth + 1);
  return shown;
}

/** Returns the message of anything thrown, without secrets; for a zod error the places and reasons: `inbox.1: not JSON`. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return withoutSecrets(spelled(error));
  return withoutSecrets(mismatchOf(error) || error.message);
}

/** Maximum number of places named, and of UTF-16 code units for each: their values and names come from outside. */
const MOST_PLACES = 3;
const PLACE_CHARS = 200;

/** Returns a zod error in one line, because its message is a whole document; empty for every other error. */
function mismatchOf(error: Error): string {
  if (error.name !== "ZodError" || !("issues" in error) || !Array.isArray(error.issues)) return "";
  const issues: readonly unknown[] = error.issues;
  const places = issues.slice(0, MOST_PLACES).map((issue) => issueText(issue).slice(0, PLACE_CHARS));
  return places.join("; ").replace(/[\p{Cc}\p{Surrogate}]/gu, " ");
}

function issueText(issue: unknown): string {
  if (typeof issue !== "object" || issue === null || !("message" in issue)) return "";
  const path: readonly unknown[] = "path" in issue && Array.isArray(issue.path) ? issue.path : [];
  return path.length === 0 ? `${issue.message}` : `${path.join(".")}: ${issue.message}`;
}

/** Returns true if stored data of an agent cannot be parsed: no process of this version can parse it later either. */
export function isUnreadable(error: unknown): boolean {
  return error instanceof SyntaxError || (error instanceof Error && error.name === "ZodError");
}

/** Converts a thrown value to text, even one whose conversion throws. */
function spelled(thrown: unknown): string {
  try {
    return String(thrown);
  } catch {
    return "something that cannot be shown was thrown";
  }
}

/**
 * Reasons of failures. `not_found`: a named file or directory does not exist; `not_directory`: the path is no directory;
 * `too_slow`: a pattern took longer than its time limit; `unavailable`: the machine gives no process, file descriptor or processor now.
 */
export type FailureReason = "not_found" | "not_directory" | "too_slow" | "unavailable" | "other";

/** Failure that a tool throws. The model reads its message as an error result; it names no host path. */
export class ToolFailure extends Error {
  override readonly name = "ToolFailure";
  readonly reason: FailureReason;

  constructor(message: string, reason: FailureReason = "other") {
    super(message);
    this.reason = reason;
  }
}

/** Returns the system's error code; undefined if there is none. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && "code" in error ? String(error.code) : undefined;
}

/** Returns true if Redis refused a command because a key has the wrong type. */
export function isWrongType(error: unknown): boolean {
  return error instanceof Error && error.message.includes("WRONGTYPE");
}

/** Resolves to the result of `read`, or to `instead` if a key that it reads has the wrong type. */
export async function unlessMistyped<T>(read: Promise<T>, instead: T): Promise<T> {
  try {
    return await read;
  } catch (error) {
    if (isWrongType(error)) return instead;
    throw error;
  }
}

const ADVICE = /: the same call with (?:request_key|message_id|question_id) "[^"]*" is safe\.$/;

/** Returns the error for a caller that can name no key: an unknown outcome has `advice` in place of the advice to repeat the call. */
export function withoutKey(error: unknown, advice: string): unknown {
  if (!(error instanceof SubagentError) || !ADVICE.test(error.message)) return error;
  return new SubagentError(error.code, error.message.replace(ADVICE, `: ${advice}.`), {}, error);
}
