/** Text on a terminal: its width, cutting, wrapping, and the removal of unsafe characters. Pure. */
import stringWidth from "string-width";
import wrapAnsi from "wrap-ansi";

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });
/** Maximum UTF-16 units given to the segmenter at once: for 66,000 Node 20 needs minutes. */
const PIECE_UNITS = 8_192;
/** Longest character, as people see it, that is kept whole where a text is cut into pieces, UTF-16 units. */
const CHARACTER_UNITS = 256;
/** UTF-16 units that {@link cutTo} reads for each cell: as many as an emoji of a family with its marks needs. */
const UNITS_PER_CELL = 16;
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding control characters is the purpose
const ESCAPES = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[@-_]/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding control characters is the purpose
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Makes text from a model or a file safe for a terminal: removes escape sequences, control and direction characters. */
export function plain(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(ESCAPES, "").replace(CONTROLS, "").replace(/\t/g, "    ");
}

/** Makes text of the command line safe for a terminal and keeps it recognizable: `\\u001b` for an escape character. */
export function escaped(text: string): string {
  return text.replace(CONTROLS, inHexadecimal);
}

/** Does the same as {@link plain}, and returns one line. */
export function plainLine(text: string): string {
  return plain(text).replace(/\s+/g, " ").trim();
}

/** Returns a text's width in terminal cells: 2 for CJK and emoji, 0 for marks and colour codes. */
export function cells(text: string): number {
  let width = 0;
  for (const piece of pieces(text)) width += stringWidth(piece);
  return width;
}

/** Yields `text` in pieces of at most {@link PIECE_UNITS}, cut between characters and before spaces. */
function* pieces(text: string): Generator<string> {
  let at = 0;
  while (text.length - at > PIECE_UNITS) {
    const piece = text.slice(at, at + PIECE_UNITS);
    let last = 0;
    for (const { index } of graphemes.segment(piece.slice(-CHARACTER_UNITS))) last = index;
    const whole = piece.slice(0, last - CHARACTER_UNITS);
    const cut = whole.trimEnd() || whole;
    yield cut;
    at += cut.length;
  }
  yield text.slice(at);
}

/**
 * Returns the cells of a line on a terminal of `columns`, at most `most`. The last one stays empty, because some terminals wrap as
 * soon as it is written. Undefined columns, as of a file or a pipe: no limit, also not `most`.
 */
export function lineCells(columns: number | undefined, most = Number.POSITIVE_INFINITY): number {
  return columns === undefined ? Number.POSITIVE_INFINITY : Math.min(columns - 1, most);
}

/** Returns `text` in exactly `width` cells: cut with an ellipsis, or padded with spaces on the side opposite to `align`. */
export function padTo(text: string, width: number, align: "left" | "right" = "left"): string {
  const cut = cutTo(text, width);
  const filling = " ".repeat(Math.max(0, width - cells(cut)));
  return align === "left" ? cut + filling : filling + cut;
}

/** Returns plain `text` in at most `width` cells, with an ellipsis if it was cut. */
export function cutTo(text: string, width: number): string {
  const begin = text.slice(0, UNITS_PER_CELL * Math.max(0, width) + CHARACTER_UNITS);
  if (begin === text && cells(text) <= width) return text;
  if (width <= 0) return "";
  let kept = "";
  let used = 0;
  for (const { segment } of graphemes.segment(begin)) {
    used += cells(segment);
    if (used > width - 1) break;
    kept += segment;
  }
  return `${kept.trimEnd()}…`;
}

/** Wraps text to lines of at most `width` cells, between words if possible; wrapped lines keep the indentation. */
export function wrap(text: string, width: number): string[] {
  return text.split("\n").flatMap((line) => wrapLine(line.trimEnd(), Math.max(8, width)));
}

function wrapLine(line: string, width: number): string[] {
  if (width === Number.POSITIVE_INFINITY || cells(line) <= width) return [line];
  const marker = /^\s*(?:[-*•]\s+|\d+[.)]\s+)?/.exec(line)?.[0] ?? "";
  const head = cells(marker) < width / 2 ? marker : "";
  return hanging(head, line.slice(head.length), width);
}

/** Returns `text` after `head`, wrapped to `width` cells; its further lines are indented by the width of `head`. */
export function hanging(head: string, text: string, width: number): string[] {
  const indent = cells(head);
  if (width === Number.POSITIVE_INFINITY) return [head + text];
  const wrapped: string[] = [];
  for (const piece of pieces(text)) {
    // A piece goes on in the last line of the one before it.
    const lines = wrapAnsi((wrapped.pop() ?? "") + piece, Math.max(8, width - indent), { hard: true });
    wrapped.push(...lines.split("\n"));
  }
  return wrapped.map((line, n) => (n === 0 ? head : " ".repeat(indent)) + line);
}

const UNSAFE = /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Returns one line of JSON, safe for a terminal: control and direction characters are escaped. */
export function toJsonLine(value: unknown): string {
  return JSON.stringify(value).replace(UNSAFE, inHexadecimal);
}

function inHexadecimal(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
