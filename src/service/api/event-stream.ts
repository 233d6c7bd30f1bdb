/**
 * Server-sent events to one client.
 *
 * At most one event waits in this process: the next is taken when the socket has room. A client that takes nothing for
 * {@link PATIENCE_MS} is cut off, and comes back with `Last-Event-ID`. A comment goes out every {@link HEARTBEAT_MS}, so
 * that a connection that died is noticed on both sides. Each heartbeat also checks the client's key; a revoked key ends the
 * stream, and nothing is written behind its end.
 */

import type { Request, Response } from "express";
import type { Clock } from "../../shared/clock.ts";
import { SubagentError } from "../../shared/errors.ts";
import { onAbort } from "../../shared/stop-signal.ts";
import type { Auth } from "./auth.ts";

/** One event; `id` is what the client says as `Last-Event-ID` to go on behind it. */
export interface ServerSentEvent {
  id?: string | undefined;
  event: string;
  data: unknown;
}

/** Where the events go. */
export interface EventStreamOptions {
  request: Request;
  response: Response;
  auth: Auth;
  clock: Clock;
  /** Aborts when the client has gone. */
  signal: AbortSignal;
}

const HEARTBEAT_MS = 15_000;
const PATIENCE_MS = 10_000;
const EVENT_STREAM = "text/event-stream";

/** Whether the client asks for a stream. */
export function wantsEvents(request: Request): boolean {
  return request.get("Accept")?.includes(EVENT_STREAM) ?? false;
}

/** The number behind which a client wants to go on; undefined for a client that begins. */
export function lastEventIdOf(request: Request): string | undefined {
  const id = request.get("Last-Event-ID");
  if (id === undefined || id === "") return undefined;
  if (/^\d{1,16}-\d{1,16}$/.test(id)) return id;
  throw new SubagentError(
    "invalid_input",
    "Last-Event-ID cannot be used: send the id of an event of this stream.",
  );
}

/** Writes events until the source ends, the client goes or its key is revoked. Rejects only before the first byte. */
export async function streamEvents(
  { request, response, auth, clock, signal }: EventStreamOptions,
  events: AsyncIterable<ServerSentEvent>,
): Promise<void> {
  response
    .status(200)
    .set({ "Content-Type": EVENT_STREAM, "Cache-Control": "no-store", "X-Accel-Buffering": "no" });
  // It has the head alone: a client would wait for it to the end of the stream. The source ends with the connection's request.
  if (request.method === "HEAD") return void response.end();
  response.write(": connected\n\n");
  const stopHeartbeat = startHeartbeat({ request, response, auth, clock });
  try {
    for await (const event of events) {
      if (signal.aborted || response.writableEnded) break;
      if (!response.write(textOf(event))) await drained(response, clock, signal);
    }
  } catch {
    // The source failed behind the first byte: the client comes back and is told then.
  } finally {
    stopHeartbeat();
    endStream(response, clock);
  }
}

/** Ends the stream; a client that does not take the rest of it within {@link PATIENCE_MS} is cut off. Idempotent. */
function endStream(response: Response, clock: Clock): void {
  if (response.writableEnded || response.closed) return;
  const timer = clock.timeout(PATIENCE_MS, () => void response.destroy());
  response.once("close", () => timer.cancel());
  response.end();
}

function textOf({ id, event, data }: ServerSentEvent): string {
  return `${id === undefined ? "" : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** Resolves when the socket has room again, or the client has gone; one without patience left is cut off. */
function drained(response: Response, clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    let forget = () => {};
    const over = () => {
      timer.cancel();
      response.off("drain", over);
      forget();
      resolve();
    };
    const timer = clock.timeout(PATIENCE_MS, () => response.destroy());
    response.once("drain", over);
    forget = onAbort(signal, over);
  });
}

function startHeartbeat({ request, response, auth, clock }: Omit<EventStreamOptions, "signal">): () => void {
  let timer: { cancel(): void };
  const beat = () => {
    timer = clock.timeout(HEARTBEAT_MS, beat);
    if (!response.writableNeedDrain) response.write(": heartbeat\n\n");
    // A Redis that is away says nothing against a key.
    auth.isStillValid(request).then(
      (isValid) => {
        if (isValid) return;
        timer.cancel();
        endStream(response, clock);
      },
      () => {},
    );
  };
  timer = clock.timeout(HEARTBEAT_MS, beat);
  return () => timer.cancel();
}
