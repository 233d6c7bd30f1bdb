/** What every command is given: its surroundings as values, so that nothing below looks around by itself. */
import type { Clock } from "../shared/clock.ts";
import { type Config, type Environment, loadConfig } from "../shared/config.ts";
import { createLogger, type Logger, type LogLevel } from "../shared/logger.ts";
import { parseRoots } from "../worker/tools/roots.ts";
import { formatLogLine } from "./log-line.ts";
import type { Output } from "./output.ts";
import { plainLine } from "./text.ts";

/** The surroundings of a command. */
export interface Surroundings {
  env: Environment;
  cwd: string;
  clock: Clock;
  output: Output;
  /** Standard input, for prompts given as `-`. */
  input: AsyncIterable<Buffer | string>;
  /** Aborts when the command must stop. */
  signal: AbortSignal;
  /** Version of this package. */
  version: string;
}

/** The surroundings with everything read from them. */
export interface CommandContext extends Surroundings {
  config: Config;
  logger: Logger;
}

/**
 * Reads the environment for a command whose own log level is `level`; `strict` switches the production checks on or off
 * whatever NODE_ENV says. Throws `invalid_config` naming all wrong variables; misspelt ones of ours are noted.
 */
export function openCommand(
  surroundings: Surroundings,
  level: LogLevel,
  { strict }: { strict?: boolean } = {},
): CommandContext {
  const { env, cwd, output } = surroundings;
  const rootsProblem = (text: string) => {
    const parsed = parseRoots(text);
    return "problem" in parsed ? parsed.problem : undefined;
  };
  const config = loadConfig(env, { cwd, rootsProblem });
  for (const name of config.unknownVariables) {
    output.note(`${plainLine(name)} is set and means nothing to this version: is it misspelt?`);
  }
  const onTerminal = { write: (line: string) => output.note(formatLogLine(line, output.style)) };
  const logger = createLogger({
    level: config.logLevel ?? level,
    ...(output.isLive && { destination: onTerminal }),
  });
  const { production } = config;
  return { ...surroundings, config: { ...config, production: strict ?? production }, logger };
}
