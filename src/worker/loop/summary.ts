/** What the parent gets to read: the last non-empty text of a run, cut to a size that does not flood its context. */
import { NO_SUMMARY } from "../../shared/protocol/reply.ts";

/** Most code points of a summary, the marker included. */
export const SUMMARY_MAX_CHARS = 5_000;

/** A text of the right size, and whether something was left out. */
export interface Summary {
  summary: string;
  truncated: boolean;
}

/** `text` trimmed, or {@link NO_SUMMARY}; above `maxChars` code points its head and tail around a marker. */
export function summarise(text: string, maxChars: number = SUMMARY_MAX_CHARS): Summary {
  const trimmed = text.trim();
  if (trimmed === "") return { summary: NO_SUMMARY, truncated: false };
  const points = trimmed.length <= maxChars ? undefined : [...trimmed];
  if (!points || points.length <= maxChars) return { summary: trimmed, truncated: false };
  const marker = `\n[… shortened from ${points.length} characters; the full text is kept …]\n`;
  const room = Math.max(0, maxChars - [...marker].length);
  const head = Math.ceil(room * 0.7);
  const tail = room - head;
  const kept = points.slice(0, head).join("") + marker + (tail > 0 ? points.slice(-tail).join("") : "");
  return { summary: kept, truncated: true };
}
