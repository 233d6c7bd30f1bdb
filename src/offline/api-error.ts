/** The API's error shape and the error type that belongs to each HTTP status. Pure. */

/** An error answer: HTTP status plus what stands in the body. */
export interface ApiError {
  status: number;
  type: string;
  message: string;
  /** Extra response headers, such as `retry-after`. */
  headers?: Record<string, string>;
}

const TYPE_BY_STATUS: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  405: "invalid_request_error",
  408: "timeout_error",
  409: "conflict_error",
  413: "request_too_large",
  429: "rate_limit_error",
  503: "overloaded_error",
  504: "timeout_error",
  529: "overloaded_error",
};

/** The error type that the API uses with a status: any other 4xx is an `invalid_request_error`, any other 5xx an `api_error`. */
export function errorTypeOf(status: number): string {
  return TYPE_BY_STATUS[status] ?? (status < 500 ? "invalid_request_error" : "api_error");
}

/** The HTTP status that the API uses with an error type; 500 for unknown types. */
export function statusOf(type: string): number {
  if (type === "overloaded_error") return 529;
  const found = Object.entries(TYPE_BY_STATUS).find(([, known]) => known === type);
  return found === undefined ? 500 : Number(found[0]);
}

/** A 400 `invalid_request_error` with a sentence. */
export function invalidRequest(message: string): ApiError {
  return { status: 400, type: "invalid_request_error", message };
}

/** The JSON body of an error answer; also the data of an `error` event inside a stream. */
export function errorBody(error: Pick<ApiError, "type" | "message">, requestId: string) {
  return {
    type: "error",
    error: { type: error.type, message: error.message },
    request_id: requestId,
  } as const;
}

/**
 * Why the offline model itself could not do what its owner asked.
 * `not_started`: `url` was read before `start()`; `cannot_listen`: the address is taken or not ours;
 * `ledger_unwritable`: `ledgerPath` cannot be opened for appending; `invalid_scenario`: the scenario does not match its schema.
 */
export class OfflineModelError extends Error {
  override readonly name = "OfflineModelError";
  readonly code: "not_started" | "cannot_listen" | "ledger_unwritable" | "invalid_scenario";

  /** @param message one sentence that says what to do */
  constructor(code: OfflineModelError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
