/**
 * The output of the command line: results on stdout, all else on stderr, and a live block at the bottom.
 *
 * Owns both streams and the block on the terminal. Other modules pass finished lines.
 *
 * 1. The block is the last thing on the terminal: all other lines appear above it.
 * 2. The block is redrawn in one write and only when a line changed; it is rewritten in place, never cleared first.
 * 3. If a stream fails, the writing ends, not the program: `delivered` and `lost` tell of it.
 * 4. A terminal gets no control characters but our own colours, whatever a model, a file or another program wrote into a line.
 */
import type { Environment } from "../../shared/config.ts";
import { cells, lineCells, plain, plainLine, wrap } from "./text.ts";

const FALLBACK_COLUMNS = 80;
const FALLBACK_ROWS = 24;

/** A writable stream with the terminal fields of Node's standard streams. */
export interface OutputStream {
  /** Writes `text`; calls `done` when it was passed on, or with the error. */
  write(text: string, done?: (error?: Error | null) => void): unknown;
  on(event: "error", listener: (error: Error) => void): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
  readonly rows?: number;
}

/** The two standard streams, coordinated. */
export interface Output {
  /** True if stderr is a terminal that can redraw. */
  readonly isLive: boolean;
  /** Width and height of the terminal on stderr, in cells. */
  readonly size: { columns: number; rows: number };
  /** Width to wrap results to; undefined if stdout is a file or a pipe. */
  readonly resultColumns: number | undefined;
  /** Style for stdout. */
  readonly resultStyle: Style;
  /** Style for stderr. */
  readonly style: Style;
  /** Prints a line, or lines, to stdout. A list, because a call takes some 100,000 arguments at most. */
  result(lines: string | readonly string[]): void;
  /** Prints a line, or lines, to stderr; on a terminal wrapped to its width, but indented lines, which may be commands to paste. */
  note(lines: string | readonly string[]): void;
  /** Resolves when all results so far were passed on: to true, or to false if one was not, because the reader is gone or stdout fails. */
  delivered(): Promise<boolean>;
  /** Resolves as `delivered` does: to the error that lost results, or to undefined. A reader that is gone (EPIPE) wants no more: no error. */
  lost(): Promise<Error | undefined>;
  /** Replaces the live block; no lines remove it. Does nothing if stderr cannot redraw. */
  block(lines: readonly string[]): void;
}

/** Creates the output; `spoken` is applied to each line for stderr before it is wrapped. */
export function createOutput(
  stdout: OutputStream,
  stderr: OutputStream,
  env: Environment,
  spoken = asIs,
): Output {
  const isLive = stderr.isTTY === true && env.TERM !== "dumb";
  const sameTerminal = isLive && stdout.isTTY === true;
  const size = () => sizeOf(stderr);
  const results = writerTo(stdout);
  const [writeResult, writeNote] = [results.write, writerTo(stderr).write];
  let shown: readonly string[] = [];

  /** Moves the cursor to the start of the block; counts its lines again, because the terminal may be narrower now. */
  const toStart = () => {
    const { columns } = size();
    const height = shown.reduce((sum, line) => sum + Math.max(1, Math.ceil(widthOf(line) / columns)), 0);
    return height === 0 ? "" : `\u001b[${height}A\r`;
  };
  const told = (line: string) => inWidth(spoken(line), isLive ? size().columns : undefined);
  const drawn = (lines: readonly string[]) => lines.map((line) => `${line}\u001b[K\n`).join("");
  const above = (write: (text: string) => void, text: string, isOnTerminal: boolean) => {
    if (!isOnTerminal || shown.length === 0) return write(text);
    writeNote(`${toStart()}\u001b[J`);
    write(text);
    writeNote(drawn(shown));
  };
  return {
    isLive,
    get size() {
      return size();
    },
    get resultColumns() {
      return stdout.isTTY ? stdout.columns || FALLBACK_COLUMNS : undefined;
    },
    resultStyle: createStyle(wantsColour(env, stdout.isTTY === true)),
    style: createStyle(wantsColour(env, stderr.isTTY === true)),
    result: (lines) => above(writeResult, textOf(linesFor(stdout, [lines].flat())), sameTerminal),
    note: (lines) => above(writeNote, textOf(linesFor(stderr, [lines].flat()).flatMap(told)), isLive),
    delivered: async () => (await results.flush()) === undefined,
    lost: async () => lossOf(await results.flush()),
    block(lines) {
      const safe = linesFor(stderr, lines);
      if (!isLive || (safe.length === shown.length && safe.every((line, n) => line === shown[n]))) return;
      const start = toStart();
      shown = safe;
      writeNote(`${start}${drawn(shown)}\u001b[J`);
    },
  };
}

function sizeOf({ columns, rows }: OutputStream): Output["size"] {
  return { columns: columns || FALLBACK_COLUMNS, rows: rows || FALLBACK_ROWS };
}

function lossOf(problem: Error | undefined): Error | undefined {
  return problem && "code" in problem && problem.code === "EPIPE" ? undefined : problem;
}

interface Writer {
  /** Writes `text`, unless the stream has failed before. */
  write(text: string): void;
  /** Resolves when all texts so far were passed on, or to the first error of the stream. */
  flush(): Promise<Error | undefined>;
}

function writerTo(stream: OutputStream): Writer {
  let problem: Error | undefined;
  const note = (error?: Error | null) => {
    problem ??= error ?? undefined;
  };
  stream.on("error", note);
  return {
    write: (text) => {
      if (!problem) stream.write(text, note);
    },
    // Node's standard streams take an empty text also after an error, so the first error counts.
    flush: () =>
      new Promise((resolve) => {
        stream.write("", (error) => {
          note(error);
          resolve(problem);
        });
      }),
  };
}

function asIs(line: string): string {
  return line;
}

function inWidth(line: string, columns: number | undefined): string[] {
  return line.startsWith(" ") ? [line] : wrap(line, lineCells(columns));
}

function textOf(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}

/** Returns the lines for a stream; on a terminal without what it would obey, but with our own colours. */
function linesFor({ isTTY }: OutputStream, lines: readonly string[]): readonly string[] {
  return isTTY ? lines.map(harmless) : lines;
}

function harmless(line: string): string {
  const parts = line.split(COLOUR_CODE);
  const codes = line.match(COLOUR_CODE) ?? [];
  return parts.map((part, n) => plain(part) + (codes[n] ?? "")).join("");
}

function widthOf(line: string): number {
  return cells(line.replace(COLOUR_CODE, ""));
}

// Colour and weight for terminals. Pure. Each terminal theme defines the sixteen colours. Green, yellow and cyan are pale
// in many light themes, so only glyphs have them; words get bold, dim or red.

const CODES = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  cyan: [36, 39],
} as const;
const COLOUR_CODE = new RegExp(`\\u001b\\[(?:${Object.values(CODES).flat().join("|")})m`, "g");

/** A colour or weight of text. */
export type TextStyle = keyof typeof CODES;
/** Applies a text style; returns the text unchanged if colour is off. */
export type Style = (textStyle: TextStyle | undefined, text: string) => string;

/** Creates a style: with escape sequences if `isColoured`, else without. */
export function createStyle(isColoured: boolean): Style {
  return (textStyle, text) => {
    if (!isColoured || !textStyle || text === "") return text;
    const [on, off] = CODES[textStyle];
    return `\u001b[${on}m${text}\u001b[${off}m`;
  };
}

/** Returns true if a stream gets colour: NO_COLOR (any text) forbids it, FORCE_COLOR (not 0 or false) forces it. */
function wantsColour(env: Environment, isTty: boolean): boolean {
  if (env.NO_COLOR) return false;
  if (env.FORCE_COLOR !== undefined) return env.FORCE_COLOR !== "0" && env.FORCE_COLOR !== "false";
  return isTty && env.TERM !== "dumb";
}

// A log line for a terminal; files and pipes get the JSON. Pure.

const LEVELS: readonly [number, string, TextStyle | undefined][] = [
  [50, "error", "red"],
  [40, "warn", "bold"],
  [30, "info", undefined],
  [0, "debug", "dim"],
];
const NOT_SHOWN = new Set(["level", "time", "msg", "v", "stack"]);

/** Formats a log line: `warn  Redis connection failed  role=worker problem="…"`; a line that is not JSON stays plain text. */
export function formatLogLine(line: string, style: Style): string {
  const entry = parse(line);
  if (!entry) return plainLine(line);
  const [, name, textStyle] = LEVELS.find(([least]) => Number(entry.level) >= least) ?? [
    0,
    "info",
    undefined,
  ];
  const fields = Object.entries(entry)
    .filter(([key]) => !NOT_SHOWN.has(key))
    .map(
      ([key, value]) =>
        `${key}=${typeof value === "string" && !/\s/.test(value) ? value : JSON.stringify(value)}`,
    );
  const rest = fields.length > 0 ? `  ${style("dim", plainLine(fields.join(" ")))}` : "";
  return `${style(textStyle, name.padEnd(5))}  ${plainLine(String(entry.msg ?? ""))}${rest}`;
}

function parse(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null ? { ...value } : undefined;
  } catch {
    return undefined;
  }
}
