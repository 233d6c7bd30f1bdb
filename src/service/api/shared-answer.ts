/**
 * Answers that are the same for every client. Their bytes exist once, however many connections wait to read them, and a client
 * that names the tag of what it has gets 304 without them.
 */
import { createHash } from "node:crypto";
import type { Response } from "express";

/** The bytes of an answer, and their `ETag`. */
export interface SharedAnswer {
  readonly bytes: Buffer;
  readonly tag: string;
}

/** Makes an answer from its content. */
export function sharedAnswer(content: string | Buffer): SharedAnswer {
  const bytes = Buffer.from(content);
  return { bytes, tag: `"${createHash("sha256").update(bytes).digest("base64url").slice(0, 22)}"` };
}

/** Sends a shared answer; Express compares the tag with `If-None-Match`. The caller sets the type. */
export function sendShared(response: Response, { bytes, tag }: SharedAnswer): void {
  response.set("ETag", tag).send(bytes);
}
