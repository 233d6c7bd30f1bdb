/** A message on its way to an agent. */
import { z } from "zod";
import { RequestKey } from "./ids.ts";

/** Most bytes (UTF-8) of one message or prompt. */
export const MESSAGE_MAX_BYTES = 256 * 1024;
/** Most nesting levels of any JSON that a caller hands in. */
export const JSON_MAX_DEPTH = 32;
/** Most messages that may wait unread in an inbox. */
export const INBOX_MAX_MESSAGES = 64;
/** Most bytes that may wait unread in an inbox. */
export const INBOX_MAX_BYTES = 1024 * 1024;

/** One message in an agent's inbox, as stored. */
export const InboxMessage = z.object({ v: z.literal(1), message_id: RequestKey, text: z.string() });
/** See {@link InboxMessage}. */
export type InboxMessage = z.infer<typeof InboxMessage>;

/** The text of a message or prompt: not blank, at most 256 KB of UTF-8. */
export const MessageText = z
  .string()
  .refine((text) => text.trim() !== "", "write what the sub-agent should do or know")
  .refine(
    (text) => Buffer.byteLength(text) <= MESSAGE_MAX_BYTES,
    `at most ${MESSAGE_MAX_BYTES / 1024} KB: put long material into a file and name it`,
  );

/** How deep a JSON value nests; stops counting at `limit + 1`, so hostile input costs nothing. */
export function depthOf(value: unknown, limit: number = JSON_MAX_DEPTH): number {
  if (value === null || typeof value !== "object") return 0;
  if (limit <= 0) return 1;
  let deepest = 0;
  for (const child of Object.values(value)) {
    deepest = Math.max(deepest, depthOf(child, limit - 1));
    if (deepest >= limit) break;
  }
  return deepest + 1;
}
