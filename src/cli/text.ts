/** Text on a terminal: how wide it is, how it is cut and wrapped, and what must never get there. Pure. */

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });
const ZERO = /^[\p{Mark}\p{Format}]+$/u;
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1b000}-\u{1b2ff}\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}|\ufe0f/u;
const ASCII = /^[\x20-\x7e]*$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding control characters is the purpose
const ESCAPES = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[@-_]/g;
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding control characters is the purpose
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Text from a model or a file, fit for a terminal: no escape sequences, no control or direction characters. */
export function plain(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(ESCAPES, "").replace(CONTROLS, "").replace(/\t/g, "    ");
}

/** As {@link plain}, on one line. */
export function plainLine(text: string): string {
  return plain(text).replace(/\s+/g, " ").trim();
}

/** How many cells of a terminal a plain text takes: 2 for CJK and emoji, 0 for marks. */
export function cells(text: string): number {
  if (ASCII.test(text)) return text.length;
  let sum = 0;
  for (const { segment } of graphemes.segment(text)) sum += cellsOfGrapheme(segment);
  return sum;
}

/** `text` in exactly `width` cells: cut with an ellipsis, or filled with spaces on the side away from `align`. */
export function padTo(text: string, width: number, align: "left" | "right" = "left"): string {
  const cut = cutTo(text, width);
  const filling = " ".repeat(Math.max(0, width - cells(cut)));
  return align === "left" ? cut + filling : filling + cut;
}

/** `text` in at most `width` cells, with an ellipsis when something was cut. */
export function cutTo(text: string, width: number): string {
  if (cells(text) <= width) return text;
  if (width <= 0) return "";
  let kept = "";
  let used = 0;
  for (const { segment } of graphemes.segment(text)) {
    used += cellsOfGrapheme(segment);
    if (used > width - 1) break;
    kept += segment;
  }
  return `${kept.trimEnd()}…`;
}

/** Lines of at most `width` cells, broken between words where possible; a line's indentation is kept below it. */
export function wrap(text: string, width: number): string[] {
  return text.split("\n").flatMap((line) => wrapLine(line.trimEnd(), Math.max(8, width)));
}

function wrapLine(line: string, width: number): string[] {
  if (cells(line) <= width) return [line];
  const marker = /^\s*(?:[-*•]\s+|\d+[.)]\s+)?/.exec(line)?.[0] ?? "";
  const indent = cells(marker) < width / 2 ? " ".repeat(cells(marker)) : "";
  const lines: string[] = [];
  let current = indent === "" ? "" : marker;
  let isEmpty = true;
  for (const word of line.slice(current.length).split(/ +/)) {
    for (const piece of piecesOf(word, width - indent.length)) {
      if (!isEmpty && cells(current) + 1 + cells(piece) > width) {
        lines.push(current);
        current = indent;
        isEmpty = true;
      }
      current += isEmpty ? piece : ` ${piece}`;
      isEmpty = false;
    }
  }
  return [...lines, current];
}

/** A word in pieces that fit: one, unless it is wider than a line (a path, a URL, CJK text). */
function piecesOf(word: string, width: number): string[] {
  if (cells(word) <= width) return [word];
  const pieces: string[] = [];
  let piece = "";
  let used = 0;
  for (const { segment } of graphemes.segment(word)) {
    const more = cellsOfGrapheme(segment);
    if (used + more > width) {
      pieces.push(piece);
      piece = "";
      used = 0;
    }
    piece += segment;
    used += more;
  }
  return [...pieces, piece];
}

function cellsOfGrapheme(grapheme: string): number {
  if (ZERO.test(grapheme)) return 0;
  return WIDE.test(grapheme) ? 2 : 1;
}
