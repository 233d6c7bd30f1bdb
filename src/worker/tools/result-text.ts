/** Pure: converts any return value of a tool into text that fits a conversation and survives UTF-8 and JSON. */
import { inspect, types } from "node:util";

/** Longest tool result, in code points, including the marker of a cut. */
export const MAX_RESULT_CHARS = 50_000;

/** The last line of a result that was cut. */
export const CUT_MARKER = "\n[cut here: the result is longer than 50,000 characters; ask for a smaller part]";

/** Text that replaces an empty result. */
const NO_OUTPUT = "(no output)";

/** Cuts to {@link MAX_RESULT_CHARS}, never inside a surrogate pair, and makes the rest safe to store. */
export function fitResult(text: string): string {
  if (indexOfCodePoint(text, MAX_RESULT_CHARS) >= text.length) {
    const safe = safeText(text);
    return safe.trim() === "" ? NO_OUTPUT : safe;
  }
  const head = text.slice(0, indexOfCodePoint(text, MAX_RESULT_CHARS - CUT_MARKER.length));
  // The round trip through bytes frees the long original, which a slice would keep alive.
  return Buffer.from(safeText(head) + CUT_MARKER).toString();
}

/** Limit for the bytes or characters read of one value, and for the count of `jsonOf`. */
const MOST_READ = 4 * MAX_RESULT_CHARS;

/**
 * Converts the return value of a tool into text. A string is unchanged, undefined and null become "", text blocks are joined
 * by line ends, bytes are read as UTF-8. Other values become JSON, or Node's `inspect` form if they have none (a cycle, a
 * bigint, a function). A value that is too large is only read in part, and ends with {@link CUT_MARKER}. Never throws.
 */
export function textOfResult(result: unknown): string {
  if (typeof result === "string") return result;
  if (result === undefined || result === null) return "";
  if (Array.isArray(result) && result.length > 0 && result.every(isTextBlock)) {
    return result.map((block) => block.text).join("\n");
  }
  if (result instanceof Uint8Array) return textOfBytes(result);
  try {
    return jsonOf(result) ?? String(result);
  } catch {
    return printed(result);
  }
}

/** Decodes bytes as text; bytes that are no text become a note with their number. */
function textOfBytes(bytes: Uint8Array): string {
  try {
    const isWhole = bytes.length <= MOST_READ;
    // `stream`: the last character of a part may be incomplete.
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(0, MOST_READ), {
      stream: !isWhole,
    });
    if (!text.includes("\0")) return isWhole ? text : text + CUT_MARKER;
  } catch {
    // It is not valid UTF-8.
  }
  return `[${bytes.length} bytes that are no text]`;
}

/** `JSON.stringify`, which stops once {@link MOST_READ} is exceeded. */
function jsonOf(result: unknown): string | undefined {
  let read = 0;
  const json = JSON.stringify(result, (key, value: unknown) => {
    if (read > MOST_READ) return undefined;
    const part = partOf(value);
    // At most four times the length that is written: numbers in a list have keys of up to six characters.
    read += 1 + key.length + (typeof part === "string" ? part.length : 0);
    return part;
  });
  return read > MOST_READ ? json + CUT_MARKER : json;
}

/** Returns the value itself if it is small and holds no bytes, otherwise its beginning, with bytes as text. */
function partOf(value: unknown): unknown {
  if (typeof value === "string") return value.slice(0, MOST_READ);
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Uint8Array) return textOfBytes(value);
  if (types.isTypedArray(value)) return value.subarray(0, MAX_RESULT_CHARS);
  if (Array.isArray(value)) {
    const isSo = value.length <= MAX_RESULT_CHARS && !value.some(Buffer.isBuffer);
    return isSo ? value : value.slice(0, MAX_RESULT_CHARS).map(bufferAsText);
  }
  const keys = Object.keys(value);
  const member = (key: string): unknown => Reflect.get(value, key);
  if (keys.length <= MAX_RESULT_CHARS && !keys.some((key) => Buffer.isBuffer(member(key)))) return value;
  return Object.fromEntries(keys.slice(0, MAX_RESULT_CHARS).map((key) => [key, bufferAsText(member(key))]));
}

/** Replaces a buffer by text, because its own JSON form is a list of bytes that cannot be cut while it is made. */
function bufferAsText(value: unknown): unknown {
  return Buffer.isBuffer(value) ? textOfBytes(value) : value;
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
    return inspect(partOf(value), { ...bounds, getters: false, customInspect: false });
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
