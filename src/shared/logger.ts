/**
 * The only access to pino: one JSON line per event, without secrets and prompts. The first logger that is not silent loads
 * pino, so importing the package costs nothing.
 */
import { write, writeSync } from "node:fs";
import { createRequire } from "node:module";
import type { Logger as PinoLogger } from "pino";
import { hasMethods, systemClock } from "./clock.ts";
import { codeOf, messageOf } from "./errors.ts";
import { type OptionForms, optionProblems, refuseProblems } from "./options.ts";
import { MASK, withoutLogins, withoutSecrets } from "./secrets.ts";

/** Logger that the rest of the code uses. */
export interface Logger extends Pick<PinoLogger, "debug" | "info" | "warn" | "error"> {
  child(bindings: Record<string, unknown>): Logger;
}
/** Required form of a logger, as the end of "must be …". */
export const LOGGER_FORM = "a logger: an object with debug, info, warn, error and child, such as pino makes";

/** Returns true if `value` has the methods of a {@link Logger}. */
export function isLogger(value: unknown): value is Logger {
  return hasMethods(value, ["debug", "info", "warn", "error", "child"]);
}

/** Loggers that never throw: those made here, and guards. */
const guarded = new WeakSet<Logger>();

/**
 * Wraps `logger` so that its errors and rejections stop no other code. The first one becomes a warning of the process. If
 * its `child` fails or returns no logger, the wrapped logger itself is used.
 */
export function guardedLogger(logger: Logger): Logger {
  if (guarded.has(logger)) return logger;
  let isTold = false;
  return guardOf(logger, (error) => {
    if (isTold) return;
    isTold = true;
    const tell = () =>
      process.emitWarning(`The logger fails: ${messageOf(error)}`, { code: "SUBAGENT_LOGGER" });
    attempt(tell, ignore);
  });
}

function guardOf(logger: Logger, failed: (error: unknown) => void): Logger {
  const level =
    (name: "debug" | "info" | "warn" | "error") =>
    (...line: unknown[]) =>
      void attempt(() => Reflect.apply(logger[name], logger, line), failed);
  const guard: Logger = {
    debug: level("debug"),
    info: level("info"),
    warn: level("warn"),
    error: level("error"),
    child(bindings) {
      const child = attempt(() => logger.child(bindings), failed);
      return child && isLogger(child) ? guardOf(child, failed) : guard;
    },
  };
  guarded.add(guard);
  return guard;
}

/** Returns the result of `work`, or undefined if it throws. `failed` gets the error or the promise's rejection. */
function attempt<T>(work: () => T, failed: (error: unknown) => void): T | undefined {
  try {
    const result = work();
    if (hasMethods(result, ["then"])) Promise.resolve(result).catch(failed);
    return result;
  } catch (error) {
    failed(error);
    return undefined;
  }
}

/** Log levels, the most detailed first. */
export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
/** See {@link LOG_LEVELS}. */
export type LogLevel = (typeof LOG_LEVELS)[number];

type Pino = Pick<typeof import("pino"), "pino" | "destination">;
let provided: Pino | undefined;

/** Gives the loggers their pino in a program made by a bundler, which does not follow the `require` of a logger. */
export function providePino(pino: Pino): void {
  provided = pino;
}

function loadPino(): Pino {
  return provided ?? createRequire(import.meta.url)("pino");
}

/** Logger of level `silent`: a parent without a logger never loads pino, which is 40 ms and 5 MB. */
const SILENT: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore, child: () => SILENT };
guarded.add(SILENT);

const SECRETS = /\b(?:sk-[\w-]{8,}|Bearer\s+\S+)/g;

/** Masks keys. Checks for two substrings first: that is far cheaper than the expression, and nearly every line has neither. */
function withoutKeys(line: string): string {
  return line.includes("sk-") || line.includes("Bearer") ? line.replace(SECRETS, MASK) : line;
}

/** Receives finished log lines, each with its line end. */
export interface LogSink {
  write(line: string): void;
}

const FORMS: OptionForms<{ level: unknown; destination: unknown }> = {
  level: [(value) => LOG_LEVELS.some((level) => level === value), `one of ${LOG_LEVELS.join(", ")}`],
  destination: [
    (value) => (Number.isInteger(value) && Number(value) >= 0) || hasMethods(value, ["write"]),
    "a file descriptor or an object with write",
  ],
};

/** Ordinary lines are written together, at this interval or when their characters reach this number. */
const WRITE_EVERY_MS = 100;
const WRITE_AT_CHARS = 8 * 1024;
/** Maximum number of characters that wait for a slow reader; further lines are dropped. */
const MOST_WAITING_CHARS = 1024 * 1024;
/** Time that the exit of the process waits for a reader without room, and the interval between its attempts. */
const EXIT_WAIT_MS = 250;
const EXIT_RETRY_MS = 5;
const SLEEPER = new Int32Array(new SharedArrayBuffer(4));
const NOTHING = Buffer.alloc(0);
/** Matches the beginning of a line of level info or below. */
const ORDINARY = /^\{"level":[123]0,/;

/**
 * Creates a logger that writes JSON lines to `destination` (a file descriptor or a sink, default 2: stdout is for results).
 * Masks keys, and passwords in URLs, in the finished line. On a file descriptor it writes lines up to `info` within 100 ms,
 * warnings and errors at once, and the rest when the process exits. Throws `invalid_config` that names every wrong option.
 */
export function createLogger(options: { level?: LogLevel; destination?: number | LogSink } = {}): Logger {
  refuseProblems("The logger", optionProblems(options, FORMS, { maker: "a logger" }));
  const { destination = 2, level = "info" } = options;
  if (level === "silent") return SILENT;
  const sink = typeof destination === "number" ? gathered(destination) : destination;
  const scrubbed = {
    write: (line: string) =>
      void attempt(() => sink.write(withoutKeys(withoutLogins(withoutSecrets(line)))), ignore),
  };
  const { pino } = loadPino();
  const logger = pino({ level, base: undefined }, scrubbed);
  guarded.add(logger);
  return logger;
}

/**
 * Returns a sink that joins ordinary lines, because one write to a terminal or pipe costs as much as a turn. A log blocks
 * nothing: lines are dropped if the reader is gone or the disk is full. Pino's own destination retries without end.
 */
function gathered(fd: number): LogSink {
  const sink = new GatheredLines(fd);
  // Pino calls this `flushSync` when the process exits, also after a signal or an error.
  return Object.assign(loadPino().destination({ dest: fd, sync: false }), {
    flushSync: () => sink.flushSync(),
    write(line: string) {
      sink.add(line);
      return true;
    },
  });
}

/**
 * Lines that wait for a file descriptor. There is one write at a time; the bytes it did not take go first, so no line is
 * cut. Without room there is one attempt per {@link WRITE_EVERY_MS}, however much is logged.
 */
class GatheredLines {
  readonly #fd: number;
  #waiting = "";
  /** Bytes that the last write did not take. */
  #rest: Buffer = NOTHING;
  #isWriting = false;
  #isDue = false;
  /** True if an urgent line waits for the write under way. */
  #isUrgent = false;

  constructor(fd: number) {
    this.#fd = fd;
  }

  add(line: string): void {
    if (this.#rest.length + this.#waiting.length > MOST_WAITING_CHARS) return;
    this.#waiting += line;
    if (this.#isWriting) this.#isUrgent ||= !ORDINARY.test(line);
    else if (this.#rest.length > 0) this.#flushSoon();
    else if (!ORDINARY.test(line)) this.#writeNow();
    else if (this.#waiting.length >= WRITE_AT_CHARS) this.#flush();
    else this.#flushSoon();
  }

  /** Writes all waiting lines when the process exits; waits {@link EXIT_WAIT_MS} at most for a reader without room. */
  flushSync(): void {
    const untilMs = systemClock.monotonicMs() + EXIT_WAIT_MS;
    this.#writeNow();
    while (this.#rest.length > 0 && systemClock.monotonicMs() < untilMs) {
      Atomics.wait(SLEEPER, 0, 0, EXIT_RETRY_MS);
      this.#writeNow();
    }
  }

  #take(): Buffer {
    const bytes = Buffer.concat([this.#rest, Buffer.from(this.#waiting)]);
    this.#rest = NOTHING;
    this.#waiting = "";
    this.#isUrgent = false;
    return bytes;
  }

  #writeNow(): void {
    let bytes = this.#take();
    try {
      while (bytes.length > 0) bytes = bytes.subarray(writeSync(this.#fd, bytes));
    } catch (error) {
      this.#putBack(takenLater(error, bytes));
    }
  }

  #flush(): void {
    this.#isDue = false;
    if (this.#isWriting) return;
    const bytes = this.#take();
    if (bytes.length === 0) return;
    this.#isWriting = true;
    write(this.#fd, bytes, (error, written) => {
      this.#isWriting = false;
      this.#putBack(error ? takenLater(error, bytes) : bytes.subarray(written));
      if (this.#isUrgent && this.#rest.length === 0) this.#flush();
    });
  }

  #flushSoon(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    systemClock.timeout(WRITE_EVERY_MS, () => this.#flush());
  }

  #putBack(rest: Buffer): void {
    this.#rest = rest;
    if (rest.length > 0 || this.#waiting !== "") this.#flushSoon();
  }
}

/** Returns the bytes to write later: all if the reader has no room now, none after any other failure. */
function takenLater(error: unknown, bytes: Buffer): Buffer {
  return codeOf(error) === "EAGAIN" ? bytes : NOTHING;
}

function ignore(): void {}
