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
/** So much waits for a reader that is slow; lines beyond it are dropped. */
const MOST_WAITING_CHARS = 1024 * 1024;
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
  const sink = new GatheredLines(fd);
  // Pino calls this `flushSync` at the exit of the process, also where a signal or an error ends it.
  return Object.assign(loadPino().destination({ dest: fd, sync: false }), {
    flushSync: () => sink.flushSync(),
    write(line: string) {
      sink.add(line);
      return true;
    },
  });
}

/** Lines on their way to a descriptor. One write at a time: a line that is written in part is not cut by another. */
class GatheredLines {
  readonly #fd: number;
  #waiting = "";
  #isWriting = false;
  #isDue = false;
  /** Whether a line that should be out waits for the write under way. */
  #isUrgent = false;

  constructor(fd: number) {
    this.#fd = fd;
  }

  add(line: string): void {
    if (this.#waiting.length > MOST_WAITING_CHARS) return;
    this.#waiting += line;
    if (ORDINARY.test(line)) {
      if (this.#waiting.length >= WRITE_AT_CHARS) this.#flush();
      else this.#flushSoon();
    } else if (this.#isWriting) this.#isUrgent = true;
    else this.flushSync();
  }

  flushSync(): void {
    let bytes = Buffer.from(this.#waiting);
    this.#waiting = "";
    try {
      while (bytes.length > 0) bytes = bytes.subarray(writeSync(this.#fd, bytes));
    } catch (error) {
      this.#putBack(takenLater(error, bytes));
    }
  }

  #flush(): void {
    this.#isDue = false;
    if (this.#isWriting || this.#waiting === "") return;
    const bytes = Buffer.from(this.#waiting);
    this.#waiting = "";
    this.#isUrgent = false;
    this.#isWriting = true;
    write(this.#fd, bytes, (error, written) => {
      this.#isWriting = false;
      this.#putBack(error ? takenLater(error, bytes) : bytes.subarray(written));
      if (this.#isUrgent && !error) this.#flush();
    });
  }

  #flushSoon(): void {
    if (this.#isDue || this.#waiting === "") return;
    this.#isDue = true;
    systemClock.timeout(WRITE_EVERY_MS, () => this.#flush());
  }

  /** What was not taken goes before what came meanwhile. */
  #putBack(rest: Buffer): void {
    if (rest.length > 0) this.#waiting = rest.toString() + this.#waiting;
    this.#flushSoon();
  }
}

const NOTHING = Buffer.alloc(0);

/** What may be written once the reader has made room; of any other failure nothing. */
function takenLater(error: unknown, bytes: Buffer): Buffer {
  return error instanceof Error && "code" in error && error.code === "EAGAIN" ? bytes : NOTHING;
}
