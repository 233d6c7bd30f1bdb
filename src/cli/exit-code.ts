/** Exit codes, and how an error reaches the person who typed the command. Pure. */
import type { ConfigProblem } from "../shared/config.ts";
import { type ErrorCode, messageOf, SubagentError } from "../shared/errors.ts";

/** The exit codes of every command. */
export const EXIT = {
  done: 0,
  /** A run did not succeed, or something broke. */
  failed: 1,
  /** The command line or its input cannot be used. */
  usage: 2,
  /** The surroundings are not as they must be: environment variables, Redis, ports, files. */
  environment: 3,
  /** Work was cut short by a signal. */
  interrupted: 130,
} as const;

const USAGE: readonly ErrorCode[] = [
  "invalid_input",
  "nested_spawn",
  "unknown_agent",
  "unknown_file",
  "unknown_question",
  "already_answered",
  "agent_ended",
  "conflict",
];
const ENVIRONMENT: readonly ErrorCode[] = [
  "invalid_config",
  "unknown_price",
  "redis_unavailable",
  "outcome_unknown",
  "setup_failed",
];

/** The exit code that an error stands for. */
export function exitCodeOf(error: unknown): number {
  if (!(error instanceof SubagentError)) return EXIT.failed;
  if (USAGE.includes(error.code)) return EXIT.usage;
  return ENVIRONMENT.includes(error.code) ? EXIT.environment : EXIT.failed;
}

/** The sentence about an error, and one line for each of several wrong variables; the stack only when asked for. */
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
  return error.code === "invalid_config" && Array.isArray(problems) ? problems : [];
}
