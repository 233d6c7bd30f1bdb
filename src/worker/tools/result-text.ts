/** Pure: turns whatever a tool produced into text that fits a conversation and survives UTF-8 and JSON. */
import { inspect } from "node:util";

/** The longest tool result, in code points, the marker of a cut included. */
export const MAX_RESULT_CHARS = 50_000;

/** The last line of a result that was cut. */
export const CUT_MARKER = "\n[cut here: the result is longer than 50,000 characters; ask for a smaller part]";

/** What an empty result becomes. */
const NO_OUTPUT = "(no output)";

/** A text made fit, and whether some of it was left out. */
export interface FittedText {
  readonly text: string;
  readonly truncated: boolean;
}

/** Cuts to {@link MAX_RESULT_CHARS}, never inside a surrogate pair, and makes the rest safe to store. */
export function fitResult(text: string): FittedText {
  if (indexOfCodePoint(text, MAX_RESULT_CHARS) >= text.length) {
    const safe = safeText(text);
    return { text: safe.trim() === "" ? NO_OUTPUT : safe, truncated: false };
  }
  const head = text.slice(0, indexOfCodePoint(text, MAX_RESULT_CHARS - CUT_MARKER.length));
  // The round trip through bytes frees the long original, which a slice would keep alive.
  return { text: Buffer.from(safeText(head) + CUT_MARKER).toString(), truncated: true };
}

/**
 * What a tool returned, as text: a string as it is, nothing as "", text blocks joined by line ends, and every other value
 * as JSON, or as Node prints it where it has no JSON form (a cycle, a bigint, a function). Never throws.
 */
export function textOfResult(result: unknown): string {
  if (typeof result === "string") return result;
  if (result === undefined || result === null) return "";
  if (Array.isArray(result) && result.length > 0 && result.every(isTextBlock)) {
    return result.map((block) => block.text).join("\n");
  }
  try {
    return JSON.stringify(result) ?? String(result);
  } catch {
    return printed(result);
  }
}

function isTextBlock(block: unknown): block is { text: string } {
  if (typeof block !== "object" || block === null) return false;
  return "type" in block && block.type === "text" && "text" in block && typeof block.text === "string";
}

const PRINTED_DEPTH = 10;
const PRINTED_ENTRIES = 1_000;

function printed(value: unknown): string {
  try {
    const bounds = {
      depth: PRINTED_DEPTH,
      maxArrayLength: PRINTED_ENTRIES,
      maxStringLength: MAX_RESULT_CHARS,
    };
    return inspect(value, { ...bounds, getters: false, customInspect: false });
  } catch {
    return "(a value that cannot be shown)";
  }
}

/** Replaces NUL by its picture and lone surrogates by U+FFFD, one for one. */
export function safeText(text: string): string {
  return (text.includes("\0") ? text.replaceAll("\0", "\u2400") : text).toWellFormed();
}

function indexOfCodePoint(text: string, count: number): number {
  if (text.length <= count) return text.length;
  let index = 0;
  for (let seen = 0; seen < count && index < text.length; seen++) {
    index += (text.codePointAt(index) ?? 0) > 0xffff ? 2 : 1;
  }
  return index;
}
