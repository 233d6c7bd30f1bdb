/** One HTTP exchange: reading a bounded body, sending JSON, knowing how it ended. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { type ApiError, errorBody } from "./api-error.ts";

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
  let bytes = 0;
  try {
    for await (const chunk of request) {
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
