/** The context of every command, passed as values: no command reads `process` itself. */
import { type Command, InvalidArgumentError, Option } from "commander";
import type { Clock } from "../shared/clock.ts";
import { type Config, type ConfigProblem, type Environment, loadConfig } from "../shared/config.ts";
import { type ErrorCode, messageOf, SubagentError } from "../shared/errors.ts";
import { createLogger, type Logger, type LogLevel } from "../shared/logger.ts";
import { isHostName } from "../shared/options.ts";
import { CEILING, Effort } from "../shared/protocol/limits.ts";
import { LONGEST_EVERY_MS, SHORTEST_EVERY_MS } from "../shared/protocol/schedule.ts";
import { DAY_MS } from "../shared/protocol/usage.ts";
import { parseRoots } from "../worker/tools/roots.ts";
import { terminalLine } from "./terminal/log.ts";
import type { Output } from "./terminal/output.ts";
import { plainLine } from "./terminal/text.ts";

/** The program's view of its process. */
export interface ProgramContext {
  env: Environment;
  cwd: string;
  clock: Clock;
  output: Output;
  /** Standard input, for prompts given as `-`; `isTTY`: it is a terminal. */
  input: AsyncIterable<Buffer | string> & { readonly isTTY?: boolean };
  /** Aborts when the command must stop. */
  signal: AbortSignal;
  /**
   * Stops a command in two steps: first finish, then destroy. From now on the first Ctrl-C aborts only `signal`, the second
   * aborts the returned signal. Any other signal aborts both.
   */
  stopInTwoSteps(): AbortSignal;
  /** Version of this package. */
  version: string;
  /** The shell words that call this program from `cwd`, e.g. `npx subagent-queue`. */
  command: string;
}

/** The program's context with the configuration and logger of its environment. */
export interface CommandContext extends ProgramContext {
  config: Config;
  logger: Logger;
}

/** A verb of the command line: adds its arguments, flags, examples and action to `command`. */
export type DefineCommand = (command: Command, open: OpenCommand, done: (exitCode: number) => void) => void;

/** Reads the environment for the called verb; see {@link openCommand}. */
export type OpenCommand = (level: LogLevel, options?: { strict?: boolean }) => CommandContext;

/** Adds --strict and --no-strict; without either, NODE_ENV decides. */
export function strictOptions(command: Command): Command {
  return command
    .option("--strict", "refuse a Redis that may lose accepted work; the default with NODE_ENV=production")
    .option("--no-strict", "warn about such a Redis and use it all the same");
}

const DURATION = /^(\d{1,7})(ms|s|m|h)$/;
const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** Parses a duration like `90s`, `5m` or `2h`, at most 24 h; returns ms. */
export function durationMs(text: string): number {
  const [, count, unit = ""] = DURATION.exec(text) ?? [];
  const ms = Number(count) * (UNIT_MS[unit] ?? 0);
  if (ms > 0 && ms <= DAY_MS) return ms;
  throw new InvalidArgumentError("Write a time like 90s, 5m or 2h, at most 24h.");
}

/** Parses a duration, or days like `30d`; returns ms. */
export function durationOrDaysMs(text: string): number {
  const [, days] = /^(\d{1,4})d$/.exec(text) ?? [];
  if (days !== undefined && Number(days) > 0) return Number(days) * DAY_MS;
  try {
    return durationMs(text);
  } catch {
    throw new InvalidArgumentError("Write a time like 90s, 5m, 2h or 30d; hours up to 24h.");
  }
}

/** Parses the interval of a schedule; returns ms. */
export function intervalMs(text: string): number {
  const ms = durationOrDaysMs(text);
  if (ms >= SHORTEST_EVERY_MS && ms <= LONGEST_EVERY_MS) return ms;
  throw new InvalidArgumentError("Write an interval from 1s to 366d.");
}

/** Parses an amount of USD above 0. */
export function usd(text: string): number {
  if (/^\d{1,6}(?:\.\d{1,6})?$/.test(text) && Number(text) > 0) return Number(text);
  throw new InvalidArgumentError("Write an amount of USD like 0.50.");
}

/** Parses an address to listen on. */
export function listenAddress(text: string): string {
  if (text !== "") return text;
  throw new InvalidArgumentError("Write an address, such as 127.0.0.1.");
}

/** Adds a host name to those of the earlier values of its flag. */
export function eachHostName(text: string, earlier: readonly string[] = []): string[] {
  if (isHostName(text)) return [...earlier, text];
  throw new InvalidArgumentError("Write the host alone, without scheme and port, e.g. board.internal.");
}

/** Adds the flags for the model, tools and output of a new agent. */
export function agentOptions(command: Command): Command {
  return command
    .option("--model <id>", "model, instead of the configured one")
    .addOption(new Option("--effort <level>", "how thorough the model is to be").choices(Effort.options))
    .option(
      "--task-budget <count>",
      "tokens that the model is told it has for a run",
      wholeUpTo(CEILING.max_total_tokens, 20_000),
    )
    .option("--tools <names>", "exactly these tools, separated by commas")
    .option("--schema <file>", "JSON Schema that every answer must fit, in a JSON file");
}

/** Returns a parser for a whole number from `min` to `max`. */
export function wholeUpTo(max: number, min = 0): (text: string) => number {
  return (text) => {
    if (/^\d{1,10}$/.test(text) && Number(text) >= min && Number(text) <= max) return Number(text);
    throw new InvalidArgumentError(`Write a whole number from ${min} to ${max}.`);
  };
}

/**
 * Reads the environment for a command with default log level `level`; `strict` overrides the production checks of NODE_ENV.
 * Throws `invalid_config` with all invalid variables; prints a note for each unknown variable of this product.
 */
export function openCommand(
  context: ProgramContext,
  level: LogLevel,
  { strict }: { strict?: boolean } = {},
): CommandContext {
  const { env, cwd, output } = context;
  const rootsProblem = (text: string) => {
    const parsed = parseRoots(text);
    return "problem" in parsed ? parsed.problem : undefined;
  };
  const config = loadConfig(env, { cwd, rootsProblem });
  for (const name of config.unknownVariables) {
    output.note(`${plainLine(name)} is set, but this version has no such variable: is it misspelt?`);
  }
  const chosen = config.logLevel ?? level;
  const isDebugging = chosen === "debug" || chosen === "trace";
  const onTerminal = {
    write: (line: string) => {
      const shown = terminalLine(line, { style: output.style, columns: output.size.columns, isDebugging });
      if (shown !== undefined) output.note(shown);
    },
  };
  const logger = createLogger({
    level: chosen,
    ...(output.isLive && { destination: onTerminal }),
  });
  const { production } = config;
  return { ...context, config: { ...config, production: strict ?? production }, logger };
}

// Exit codes, and the text of errors for the user. Pure.

/** The exit codes of every command. */
export const EXIT = {
  done: 0,
  /** A run did not succeed, or an unexpected error was thrown. */
  failed: 1,
  /** The command line or its input is invalid. */
  usage: 2,
  /** Environment variables, Redis, ports or files are unusable. */
  environment: 3,
  /** A signal interrupted the work. */
  interrupted: 130,
} as const;

const USAGE: readonly ErrorCode[] = [
  "invalid_input",
  "nested_spawn",
  "unknown_agent",
  "unknown_definition",
  "unknown_file",
  "unknown_question",
  "unknown_schedule",
  "already_answered",
  "agent_ended",
  "log_full",
  "conflict",
  "unknown_key",
  "unknown_webhook",
  "unknown_transcript",
];
const ENVIRONMENT: readonly ErrorCode[] = [
  "invalid_config",
  "unknown_price",
  "redis_unavailable",
  "outcome_unknown",
  "setup_failed",
];

/** Returns the exit code of an error. */
export function exitCodeOf(error: unknown): number {
  if (!(error instanceof SubagentError)) return EXIT.failed;
  if (USAGE.includes(error.code)) return EXIT.usage;
  return ENVIRONMENT.includes(error.code) ? EXIT.environment : EXIT.failed;
}

/** Returns the error's sentence, or one line for each of several invalid variables; with the stack if `withStack`. */
export function describeError(error: unknown, withStack: boolean): string[] {
  const problems = error instanceof SubagentError ? problemsOf(error) : [];
  const sentence = messageOf(error).split("\n")[0] || "unknown error";
  const lines =
    problems.length > 1
      ? [
          `${problems.length} environment variables cannot be used:`,
          ...problems.map((p) => `  ${p.sentence}`),
        ]
      : [sentence];
  return withStack && error instanceof Error && error.stack ? [...lines, error.stack] : lines;
}

function problemsOf(error: SubagentError): ConfigProblem[] {
  const { problems } = error.details;
  const list: readonly unknown[] = error.code === "invalid_config" && Array.isArray(problems) ? problems : [];
  return list.filter(isConfigProblem);
}

/** Other refusals list their problems as texts. */
function isConfigProblem(problem: unknown): problem is ConfigProblem {
  return typeof problem === "object" && problem !== null && "variable" in problem;
}
