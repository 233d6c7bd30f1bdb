/**
 * Answers in JSON, in the same way for the API's routes and its mounts. This process holds at most {@link MOST_UNREAD_MIB} MiB of
 * answers that a tenant's clients have not read.
 *
 * 1. Only an answer that can be asked for again is refused for it, as that to a GET: any other may tell of a change.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Request, Response } from "express";
import { READING } from "./problem.ts";
import { TenantBounds } from "./tenant-bounds.ts";

/** Maximum MiB of a tenant's unread answers. */
const MOST_UNREAD_MIB = 128;

const unread = new TenantBounds({
  mostMib: MOST_UNREAD_MIB,
  what: "Answers that this tenant's clients have not read",
  advice: "read them",
});

/**
 * Counts `bytes` of an answer until it has ended. Throws `rate_limited` if the tenant's clients do not read; for answers that can be
 * asked for again.
 */
export function holdUnread(request: IncomingMessage, response: ServerResponse, bytes: number): void {
  unread.hold(request, response, bytes);
}

/** Sends `body` with the status of `response`. Throws `rate_limited`, before anything is sent, if the tenant's clients do not read. */
export function sendJson(request: Request, response: Response, body: unknown): void {
  const text = JSON.stringify(body);
  if (READING.includes(request.method)) holdUnread(request, response, Buffer.byteLength(text));
  response.set("Cache-Control", "no-store").type("json").send(text);
}
