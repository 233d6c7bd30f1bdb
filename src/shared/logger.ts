/** The one door to pino: one JSON line an event, secrets and prompts never in it. */
import { type Logger as PinoLogger, pino } from "pino";

/** What the rest of the code logs with. */
export type Logger = Pick<PinoLogger, "debug" | "info" | "warn" | "error" | "child">;
/** How much is logged. */
export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
/** See {@link LOG_LEVELS}. */
export type LogLevel = (typeof LOG_LEVELS)[number];

const SECRETS = /\b(?:sk-[\w-]{8,}|Bearer\s+\S+|(?<=:\/\/)[^@\s/]+(?=@))/g;

/** Takes finished log lines, each with its line end. */
export interface LogSink {
  write(line: string): void;
}

/**
 * A logger that writes JSON lines to `destination` (a file descriptor or a sink, default 2: stdout belongs to
 * results). Anything that looks like a key or a password in a URL is replaced in the finished line.
 */
export function createLogger(options: { level?: LogLevel; destination?: number | LogSink } = {}): Logger {
  const { destination = 2 } = options;
  const sink =
    typeof destination === "number" ? pino.destination({ dest: destination, sync: true }) : destination;
  const scrubbed = { write: (line: string) => void sink.write(line.replace(SECRETS, "[redacted]")) };
  return pino({ level: options.level ?? "info", base: undefined }, scrubbed);
}
