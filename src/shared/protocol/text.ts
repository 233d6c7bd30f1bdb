/** Text of any origin: cut to a bound, and read as JSON. Pure. */

/** `text` in at most `most` UTF-16 code units, never half a character; where something was cut an ellipsis is the last of them. */
export function clip(text: string, most: number): string {
  if (text.length <= most) return text;
  return `${text.slice(0, most - 1).replace(/[\ud800-\udbff]$/, "")}…`;
}

/** `text` as sentences quote it: JSON spelling of at most `most` of its UTF-16 code units. */
export function quoted(text: string, most = 70): string {
  return JSON.stringify(clip(text, most));
}

const [QUOTE, BACKSLASH, OPENING_BRACKET, CLOSING_BRACKET] = [0x22, 0x5c, 0x5b, 0x5d];
/** Brackets and braces differ in one bit. */
const BRACE_BIT = 0x20;

/** Whether JSON text nests deeper than `levels`; asked before it is parsed, since a level takes some 130 bytes in the parser. */
export function nestsDeeper(text: string, levels: number): boolean {
  let depth = 0;
  let isQuoted = false;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) isQuoted = !isQuoted;
    else if (isQuoted) at += code === BACKSLASH ? 1 : 0;
    else if ((code & ~BRACE_BIT) === OPENING_BRACKET) depth += 1;
    else if ((code & ~BRACE_BIT) === CLOSING_BRACKET) depth -= 1;
    if (depth > levels) return true;
  }
  return false;
}

/** The value that `text` spells as JSON; undefined where it spells none. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
