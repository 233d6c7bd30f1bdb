/** Reads JSON that a provider shaped: in bounded memory, whatever its depth. */

/** Levels that are kept: more than any input may have, so that a check of the value still sees that it is too deep. */
const KEPT_LEVELS = 120;
/** Shorter JSON is parsed as it is. A level takes about 130 bytes in the parser, and one or two characters. */
const CUT_FROM_CHARS = 64 * 1024;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** `[` and `{`, and what closes them, differ in one bit. */
const OPENS = new Set([0x5b, 0x7b]);
const CLOSES = new Set([0x5d, 0x7d]);

/** The value that `json` spells, levels beyond {@link KEPT_LEVELS} left out of a long one; raises SyntaxError. */
export function parseBounded(json: string): unknown {
  return JSON.parse(json.length < CUT_FROM_CHARS ? json : cutBelowKept(json));
}

/** As {@link parseBounded}; undefined when `json` spells no value. */
export function parseOrNothing(json: string): unknown {
  try {
    return parseBounded(json);
  } catch {
    return undefined;
  }
}

/** `json` with each value below {@link KEPT_LEVELS} written as 0, so that no reader or writer of it needs a deep stack. */
export function cutBelowKept(json: string): string {
  let kept = "";
  let from = 0;
  let depth = 0;
  for (let at = 0; at < json.length; at++) {
    const code = json.charCodeAt(at);
    if (code === QUOTE) {
      at = closingQuote(json, at + 1);
      if (at < 0) break;
    } else if (OPENS.has(code)) {
      depth += 1;
      if (depth === KEPT_LEVELS + 1) kept += json.slice(from, at);
      if (depth > KEPT_LEVELS) from = json.length;
    } else if (CLOSES.has(code)) {
      if (depth === KEPT_LEVELS + 1) {
        kept += "0";
        from = at + 1;
      }
      depth -= 1;
    }
  }
  return kept + json.slice(from);
}

/** Position of the quote that ends the JSON string whose text begins at `from`; -1 without one. */
export function closingQuote(text: string, from: number): number {
  for (let at = text.indexOf('"', from); at >= 0; at = text.indexOf('"', at + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return at;
  }
  return -1;
}
