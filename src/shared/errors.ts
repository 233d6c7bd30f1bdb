/** The one catalogue of errors: every refusal has a code, says whether trying again helps, and tells what to do. */

interface Kind {
  retryable: boolean;
  httpStatus: number;
}

/** Every code, whether the same call may succeed later, and its HTTP status. */
export const ERRORS = {
  invalid_input: { retryable: false, httpStatus: 400 },
  invalid_config: { retryable: false, httpStatus: 500 },
  unknown_price: { retryable: false, httpStatus: 400 },
  nested_spawn: { retryable: false, httpStatus: 403 },
  unknown_file: { retryable: false, httpStatus: 404 },
  unknown_agent: { retryable: false, httpStatus: 404 },
  unknown_question: { retryable: false, httpStatus: 404 },
  already_answered: { retryable: false, httpStatus: 409 },
  agent_ended: { retryable: false, httpStatus: 409 },
  conflict: { retryable: false, httpStatus: 409 },
  quota_exceeded: { retryable: true, httpStatus: 429 },
  inbox_full: { retryable: true, httpStatus: 429 },
  redis_unavailable: { retryable: true, httpStatus: 503 },
  outcome_unknown: { retryable: true, httpStatus: 503 },
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
 * The error of this package. `message` is one sentence that says what to do; `details` carries the facts behind it,
 * e.g. `{ request_key }` of an `outcome_unknown`: the same call with that key is safe.
 */
export class SubagentError extends Error {
  override readonly name = "SubagentError";
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: ErrorCode, sentence: string, details: Record<string, unknown> = {}, cause?: unknown) {
    super(sentence, cause === undefined ? undefined : { cause });
    this.code = code;
    this.details = details;
  }

  /** Whether the same call may succeed later. */
  get retryable(): boolean {
    return ERRORS[this.code].retryable;
  }

  /** The HTTP status that fits. */
  get httpStatus(): number {
    return ERRORS[this.code].httpStatus;
  }
}

/** The message of anything thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
