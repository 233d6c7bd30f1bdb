/** One HTTP exchange: reading a bounded body, sending JSON, knowing how it ended. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as wait } from "node:timers/promises";

/** The largest request body, in bytes, as with the real API. */
export const MAX_BODY_BYTES = 32 * 1024 * 1024;

/** One request with its response. */
export interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  requestId: string;
  /** When the request came in, epoch milliseconds. */
  beganAt: number;
  /** Aborted when the connection is gone before the response was handed over. */
  gone: AbortSignal;
  /** `true` when the last byte of the response was handed to the socket, `false` when the connection ended before. */
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

/** What became of a body. */
export type Body = { status: "read"; text: string } | { status: "too_large" } | { status: "gone" };

/** Reads a body of at most `MAX_BODY_BYTES`; a longer one is received to its end but not kept, so that the client can read the refusal. */
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

/** Waits. Answers `false` at once when the client leaves first. */
export async function pause(exchange: Exchange, durationMs: number): Promise<boolean> {
  if (durationMs <= 0) return !exchange.gone.aborted;
  try {
    await wait(durationMs, undefined, { signal: exchange.gone });
    return true;
  } catch {
    return false;
  }
}

// The API's error shape and the error type that belongs to each HTTP status. Pure.

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
 * `invalid_config`: options that are none or cannot be used; `ledger_unwritable`: `ledgerPath` cannot be opened for
 * appending; `invalid_scenario`: the scenario does not match its schema.
 */
export class OfflineModelError extends Error {
  override readonly name = "OfflineModelError";
  readonly code:
    | "not_started"
    | "invalid_config"
    | "cannot_listen"
    | "ledger_unwritable"
    | "invalid_scenario";

  /** @param message one sentence that says what to do */
  constructor(code: OfflineModelError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
