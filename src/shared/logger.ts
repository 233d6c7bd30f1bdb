/**
 * The one door to pino: one JSON line an event, secrets and prompts never in it. Loaded with the first logger: importing the
 * package costs nothing.
 */
import { write, writeSync } from "node:fs";
import { createRequire } from "node:module";
import type { Logger as PinoLogger } from "pino";
import { hasMethods, systemClock } from "./clock.ts";
import { MASK, withoutLogins, withoutSecrets } from "./secrets.ts";

/** What the rest of the code logs with. */
export type Logger = Pick<PinoLogger, "debug" | "info" | "warn" | "error" | "child">;
/** What a logger must be, as the end of "must be …". */
export const LOGGER_FORM = "a logger: an object with debug, info, warn, error and child, such as pino makes";

/** Whether `value` can be used as a logger. */
export function isLogger(value: unknown): value is Logger {
  return hasMethods(value, ["debug", "info", "warn", "error", "child"]);
}

/** How much is logged. */
export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
/** See {@link LOG_LEVELS}. */
export type LogLevel = (typeof LOG_LEVELS)[number];

function loadPino(): typeof import("pino") {
  return createRequire(import.meta.url)("pino");
}

const SECRETS = /\b(?:sk-[\w-]{8,}|Bearer\s+\S+)/g;

/** A look for two short words is far cheaper than the expression, and nearly every line has neither. */
function withoutKeys(line: string): string {
  return line.includes("sk-") || line.includes("Bearer") ? line.replace(SECRETS, MASK) : line;
}

/** Takes finished log lines, each with its line end. */
export interface LogSink {
  write(line: string): void;
}

/** Lines of ordinary events are written together, this often or when there are so many characters of them. */
const WRITE_EVERY_MS = 100;
const WRITE_AT_CHARS = 8 * 1024;
/** How a line of level info or below begins. */
const ORDINARY = /^\{"level":[123]0,/;

/**
 * A logger that writes JSON lines to `destination` (a file descriptor or a sink, default 2: stdout belongs to
 * results). Anything that looks like a key or a password in a URL is replaced in the finished line. To a file descriptor,
 * lines up to `info` are written within 100 ms, warnings and errors at once, and all that is left when the process exits.
 */
export function createLogger(options: { level?: LogLevel; destination?: number | LogSink } = {}): Logger {
  const { destination = 2 } = options;
  const sink = typeof destination === "number" ? gathered(destination) : destination;
  const scrubbed = {
    write: (line: string) => void sink.write(withoutKeys(withoutLogins(withoutSecrets(line)))),
  };
  const { pino } = loadPino();
  return pino({ level: options.level ?? "info", base: undefined }, scrubbed);
}

/**
 * A write to a terminal or pipe costs as much as a turn's work of this process: ordinary lines share one. A log holds nothing
 * up: what its reader is gone for, or the disk has no room for, is dropped. Pino's own destination tries that again without end.
 */
function gathered(fd: number): LogSink {
  let waiting = "";
  let isWriting = false;
  let isDue = false;
  const flushSoon = () => {
    if (isDue || waiting === "") return;
    isDue = true;
    systemClock.timeout(WRITE_EVERY_MS, flush);
  };
  /** Puts back what was not taken; it goes before what came meanwhile. */
  const putBack = (rest: Buffer) => {
    if (rest.length > 0) waiting = rest.toString() + waiting;
    flushSoon();
  };
  const flush = () => {
    isDue = false;
    if (isWriting || waiting === "") return;
    const bytes = Buffer.from(waiting);
    waiting = "";
    isWriting = true;
    write(fd, bytes, (error, written) => {
      isWriting = false;
      putBack(error ? takenLater(error, bytes) : bytes.subarray(written));
    });
  };
  const flushSync = () => {
    let bytes = Buffer.from(waiting);
    waiting = "";
    try {
      while (bytes.length > 0) bytes = bytes.subarray(writeSync(fd, bytes));
    } catch (error) {
      putBack(takenLater(error, bytes));
    }
  };
  // Pino calls this `flushSync` at the exit of the process, also where a signal or an error ends it.
  return Object.assign(loadPino().destination({ dest: fd, sync: false }), {
    flushSync,
    write(line: string) {
      waiting += line;
      if (!ORDINARY.test(line)) flushSync();
      else if (waiting.length >= WRITE_AT_CHARS) flush();
      else flushSoon();
      return true;
    },
  });
}

const NOTHING = Buffer.alloc(0);

/** What may be written once the reader has made room; of any other failure nothing. */
function takenLater(error: unknown, bytes: Buffer): Buffer {
  return error instanceof Error && "code" in error && error.code === "EAGAIN" ? bytes : NOTHING;
}
