/** One HTTP exchange: reads a bounded body, sends JSON, reports its end. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as wait } from "node:timers/promises";

/** Maximum size of a request body, in bytes, as with the real API. */
export const MAX_BODY_BYTES = 32 * 1024 * 1024;

/** One request with its response. */
export interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  requestId: string;
  /** Arrival of the request, epoch milliseconds. */
  beganAt: number;
  /** Aborts if the connection closes before the whole response was written. */
  gone: AbortSignal;
  /** Resolves to `true` when the last byte of the response was written to the socket, to `false` if it closed before. */
  ended: Promise<boolean>;
}

/** Wraps a request. Sets the `request-id` header. */
export function openExchange(
  request: IncomingMessage,
  response: ServerResponse,
  requestId: string,
): Exchange {
  const left = new AbortController();
  response.setHeader("request-id", requestId);
  const ended = new Promise<boolean>((resolve) => {
    response.once("finish", () => resolve(true));
    response.once("close", () => {
      resolve(response.writableFinished);
      if (!response.writableFinished) left.abort();
    });
  });
  return { request, response, requestId, beganAt: Date.now(), gone: left.signal, ended };
}

/** Result of reading a body. */
export type Body = { status: "read"; text: string } | { status: "too_large" } | { status: "gone" };

/** Reads a body of at most `MAX_BODY_BYTES`; discards a longer one after its end, so that the client can read the error. */
export async function readBody(request: IncomingMessage): Promise<Body> {
  const chunks: Buffer[] = [];
  const incoming: AsyncIterable<unknown> = request;
  let bytes = 0;
  try {
    for await (const chunk of incoming) {
      const buffer = Buffer.isBuffer(chunk) ? chunk : Buffer.from(String(chunk));
      bytes += buffer.byteLength;
      if (bytes <= MAX_BODY_BYTES) chunks.push(buffer);
      else chunks.length = 0;
    }
  } catch {
    return { status: "gone" };
  }
  return bytes > MAX_BODY_BYTES
    ? { status: "too_large" }
    : { status: "read", text: Buffer.concat(chunks).toString("utf8") };
}

/** Sends a JSON body. */
export function sendJson(
  { response }: Exchange,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(text),
    ...headers,
  });
  response.end(text);
}

/** Sends an error in the API's shape. */
export function sendError(exchange: Exchange, error: ApiError): void {
  sendJson(exchange, error.status, errorBody(error, exchange.requestId), error.headers);
}

/** Waits `durationMs`, then resolves to true; resolves to `false` at once if the client disconnects. */
export async function pause(exchange: Exchange, durationMs: number): Promise<boolean> {
  if (durationMs <= 0) return !exchange.gone.aborted;
  try {
    await wait(durationMs, undefined, { signal: exchange.gone });
    return true;
  } catch {
    return false;
  }
}

// The API's error shape, and the error type of each HTTP status. Pure.

/** An error answer: HTTP status and the fields of the body. */
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

/** Returns the API's error type for a status: other 4xx are `invalid_request_error`, other 5xx `api_error`. */
export function errorTypeOf(status: number): string {
  return TYPE_BY_STATUS[status] ?? (status < 500 ? "invalid_request_error" : "api_error");
}

/** Returns the API's HTTP status for an error type; 500 for unknown types. */
export function statusOf(type: string): number {
  if (type === "overloaded_error") return 529;
  const found = Object.entries(TYPE_BY_STATUS).find(([, known]) => known === type);
  return found === undefined ? 500 : Number(found[0]);
}

/** Creates a 400 `invalid_request_error` with a sentence. */
export function invalidRequest(message: string): ApiError {
  return { status: 400, type: "invalid_request_error", message };
}

/** Returns the JSON body of an error answer, which is also the data of an `error` event in a stream. */
export function errorBody(error: Pick<ApiError, "type" | "message">, requestId: string) {
  return {
    type: "error",
    error: { type: error.type, message: error.message },
    request_id: requestId,
  } as const;
}

/**
 * Error of the offline model itself, thrown to its owner.
 * `not_started`: `url` was read before `start()`; `cannot_listen`: the address is in use or not of this host;
 * `invalid_config`: unknown or invalid options; `ledger_unwritable`: `ledgerPath` cannot be opened for appending;
 * `invalid_scenario`: the scenario does not match its schema.
 */
export class OfflineModelError extends Error {
  override readonly name = "OfflineModelError";
  readonly code:
    | "not_started"
    | "invalid_config"
    | "cannot_listen"
    | "ledger_unwritable"
    | "invalid_scenario";

  /** @param message one sentence: the problem, and what to do about it */
  constructor(code: OfflineModelError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
