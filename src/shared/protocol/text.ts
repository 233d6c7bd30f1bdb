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

/** The value that `text` spells as JSON; undefined where it spells none. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
