/** Puts numbers into words, cuts untrusted text to a limit, and parses or bounds JSON of any depth in bounded memory. Pure. */

/** Cuts `text` to at most `most` UTF-16 code units, never within a character; the last one is an ellipsis if it was cut. */
export function clip(text: string, most: number): string {
  if (text.length <= most) return text;
  return `${text.slice(0, most - 1).replace(/[\ud800-\udbff]$/, "")}…`;
}

/** Returns true if `text` is what {@link clip} leaves of a longer text. */
export function isClipped(text: string, most: number): boolean {
  // One code unit less where a character of two was in the way.
  return text.length >= most - 1 && text.endsWith("…");
}

/** Returns at most `most` UTF-16 code units of `text` as a JSON string, for a sentence. */
export function quoted(text: string, most = 70): string {
  return JSON.stringify(clip(text, most));
}

/** Returns a number of bytes in words: `1 byte`, `2 bytes`. */
export function byteCount(count: number): string {
  return `${count} ${count === 1 ? "byte" : "bytes"}`;
}

/** Parses `text` as JSON; returns undefined if it is not JSON. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Levels that are kept: more than any input may have, so that a depth check of the value still fails. */
const KEPT_LEVELS = 120;
/** Length from which JSON is cut before it is parsed. A level takes about 130 bytes in the parser, and one or two characters. */
const CUT_FROM_CHARS = 64 * 1024;

/** Parses `json`; levels beyond {@link KEPT_LEVELS} are left out of a long one. Throws SyntaxError. */
export function parseShallow(json: string): unknown {
  return JSON.parse(shallow(json));
}

/** Parses as {@link parseShallow} does; returns undefined if `json` is not JSON. */
export function shallowJsonIn(json: string): unknown {
  return jsonIn(shallow(json));
}

function shallow(json: string): string {
  return json.length < CUT_FROM_CHARS ? json : cutBelowKept(json);
}

const [QUOTE, BACKSLASH, OPENING_BRACKET, CLOSING_BRACKET, COMMA] = [0x22, 0x5c, 0x5b, 0x5d, 0x2c];
/** Brackets and braces differ in one bit. */
const BRACE_BIT = 0x20;

/** Returns `json` with each value below {@link KEPT_LEVELS} replaced by 0, so that no parser or writer needs a deep stack. */
export function cutBelowKept(json: string): string {
  let kept = "";
  let from = 0;
  let depth = 0;
  for (let at = 0; at < json.length; at++) {
    const code = json.charCodeAt(at);
    if (code === QUOTE) {
      at = closingQuote(json, at + 1);
      if (at < 0) break;
    } else if ((code & ~BRACE_BIT) === OPENING_BRACKET) {
      depth += 1;
      if (depth === KEPT_LEVELS + 1) kept += json.slice(from, at);
      if (depth > KEPT_LEVELS) from = json.length;
    } else if ((code & ~BRACE_BIT) === CLOSING_BRACKET) {
      if (depth === KEPT_LEVELS + 1) {
        kept += "0";
        from = at + 1;
      }
      depth -= 1;
    }
  }
  return kept + json.slice(from);
}

/** Maximum nesting levels of any JSON from a caller. */
export const JSON_MAX_DEPTH = 32;

/** Returns the nesting depth of a JSON value; stops counting at `limit + 1`, so hostile input costs nothing. */
export function depthOf(value: unknown, limit: number = JSON_MAX_DEPTH): number {
  if (value === null || typeof value !== "object") return 0;
  if (limit <= 0) return 1;
  let deepest = 0;
  const children: unknown[] = Object.values(value);
  for (const child of children) {
    deepest = Math.max(deepest, depthOf(child, limit - 1));
    if (deepest >= limit) break;
  }
  return deepest + 1;
}

/** Bounds of JSON text. `values`: those at every level; an empty list or object counts as two. */
export interface JsonBounds {
  levels: number;
  values: number;
}

/** Returns the bound that JSON text exceeds first, undefined if none; for use before the text is parsed. */
export function exceededBound(text: string, { levels, values }: JsonBounds): keyof JsonBounds | undefined {
  let [depth, count] = [0, 1];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = closingQuote(text, at + 1);
      if (at < 0) break;
    } else if ((code & ~BRACE_BIT) === OPENING_BRACKET) {
      depth += 1;
      count += 1;
    } else if ((code & ~BRACE_BIT) === CLOSING_BRACKET) depth -= 1;
    else if (code === COMMA) count += 1;
    if (depth > levels) return "levels";
    if (count > values) return "values";
  }
  return undefined;
}

/** Returns the position of the quote that ends the JSON string whose text begins at `from`; -1 if there is none. */
export function closingQuote(text: string, from: number): number {
  for (let at = text.indexOf('"', from); at >= 0; at = text.indexOf('"', at + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return at;
  }
  return -1;
}
