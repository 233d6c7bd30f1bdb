/**
 * Server-sent events to one client.
 *
 * At most one event waits in this process: the next is taken when the socket has room. A client that reads nothing for
 * {@link PATIENCE_MS} is disconnected, and comes back with `Last-Event-ID`. A comment goes out every {@link HEARTBEAT_MS},
 * so that both sides notice a dead connection. Each heartbeat also checks the client's key; a revoked key ends the stream,
 * and nothing is written after its end. Other clients are answered in between, however many streams there are.
 */

import type { Request, Response } from "express";
import type { Clock } from "../../shared/clock.ts";
import { SubagentError } from "../../shared/errors.ts";
import { createTurns } from "../../shared/event-loop.ts";
import { STREAM_ID } from "../../shared/protocol/reply.ts";
import { onAbort } from "../../shared/stop-signal.ts";
import type { Auth } from "./mount.ts";

/** One event; a client sends `id` as `Last-Event-ID` to continue after it. */
export interface ServerSentEvent {
  id?: string | undefined;
  event: string;
  data: unknown;
}

/** The request and response of a stream, and its dependencies. */
export interface EventStreamOptions {
  request: Request;
  response: Response;
  auth: Auth;
  clock: Clock;
  /** Aborts when the client has left. */
  signal: AbortSignal;
}

const HEARTBEAT_MS = 15_000;
const PATIENCE_MS = 10_000;
const EVENT_STREAM = "text/event-stream";
/** Events that all streams of this process write together in one round of the event loop: a millisecond or two. */
const turnToWrite = createTurns(100);

/** Returns whether the client asks for a stream. */
export function wantsEvents(request: Request): boolean {
  return request.get("Accept")?.includes(EVENT_STREAM) ?? false;
}

/** Returns the number after which a client continues; undefined without the header. Throws `invalid_input`. */
export function lastEventIdOf(request: Request): string | undefined {
  const id = request.get("Last-Event-ID");
  if (id === undefined || id === "") return undefined;
  if (STREAM_ID.test(id)) return id;
  throw new SubagentError(
    "invalid_input",
    "Last-Event-ID cannot be used: send the id of an event of this stream.",
  );
}

/** Writes events until the source ends, the client leaves or its key is revoked. Rejects only before the first byte. */
export async function streamEvents(
  { request, response, auth, clock, signal }: EventStreamOptions,
  events: AsyncIterable<ServerSentEvent>,
): Promise<void> {
  response
    .status(200)
    .set({ "Content-Type": EVENT_STREAM, "Cache-Control": "no-store", "X-Accel-Buffering": "no" });
  // A HEAD has no body: its client would wait until the stream ends. The source ends with the request.
  if (request.method === "HEAD") return void response.end();
  response.write(": connected\n\n");
  const stopHeartbeat = startHeartbeat({ request, response, auth, clock });
  try {
    for await (const event of events) {
      await turnToWrite();
      if (signal.aborted || response.writableEnded) break;
      if (!response.write(textOf(event))) await drained(response, clock, signal);
    }
  } catch {
    // The source failed after the first byte: the client reconnects and gets the error then.
  } finally {
    stopHeartbeat();
    endStream(response, clock);
  }
}

/** Ends the stream; disconnects a client that does not read the rest within {@link PATIENCE_MS}. Idempotent. */
function endStream(response: Response, clock: Clock): void {
  if (response.writableEnded || response.closed) return;
  const timer = clock.timeout(PATIENCE_MS, () => void response.destroy());
  response.once("close", () => timer.cancel());
  response.end();
}

function textOf({ id, event, data }: ServerSentEvent): string {
  return `${id === undefined ? "" : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** Resolves when the socket has room again or the client has left; disconnects the client after {@link PATIENCE_MS}. */
function drained(response: Response, clock: Clock, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    let forget = () => {};
    const over = () => {
      timer.cancel();
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
    // If Redis is unavailable, the key counts as valid.
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
