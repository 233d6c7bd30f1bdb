import { expect, test } from "vitest";
import { describeError, exitCodeOf } from "../../../src/cli/command.ts";
import { loadConfig } from "../../../src/shared/config.ts";
import { ERRORS, type ErrorCode, SubagentError } from "../../../src/shared/errors.ts";

const CODES: Record<ErrorCode, number> = {
  invalid_input: 2,
  nested_spawn: 2,
  unknown_agent: 2,
  unknown_definition: 2,
  unknown_file: 2,
  unknown_question: 2,
  unknown_schedule: 2,
  already_answered: 2,
  agent_ended: 2,
  log_full: 2,
  conflict: 2,
  unknown_key: 2,
  unknown_webhook: 2,
  unknown_transcript: 2,
  invalid_config: 3,
  unknown_price: 3,
  redis_unavailable: 3,
  outcome_unknown: 3,
  setup_failed: 3,
  no_worker: 1,
  timed_out: 1,
  quota_exceeded: 1,
  inbox_full: 1,
  run_failed: 1,
  protocol_violation: 1,
  invalid_tool: 1,
  closed: 1,
  unauthorized: 1,
  forbidden: 1,
  not_found: 1,
  method_not_allowed: 1,
  too_large: 1,
  unsupported_media_type: 1,
  rate_limited: 1,
};

test.each(Object.keys(ERRORS) as ErrorCode[])("%s has an exit code", (code) => {
  expect(exitCodeOf(new SubagentError(code, "x"))).toBe(CODES[code]);
});

test("an error that nobody catalogued is a failure", () => {
  expect([new TypeError("x"), "text", undefined].map(exitCodeOf)).toEqual([1, 1, 1]);
});

function configError(env: Record<string, string>): unknown {
  try {
    return loadConfig(env);
  } catch (error) {
    return error;
  }
}

test("one wrong variable is one sentence, several are a list of one line each", () => {
  const one = describeError(configError({ SUBAGENT_TRACE: "x" }), false);
  expect(one).toEqual(['SUBAGENT_TRACE="x" cannot be used: write off or full.']);
  const two = describeError(configError({ SUBAGENT_TRACE: "x", SUBAGENT_CONCURRENCY: "y" }), false);
  expect(two).toEqual([
    "2 environment variables cannot be used:",
    '  SUBAGENT_CONCURRENCY="y" cannot be used: write a whole number from 1 to 5000',
    '  SUBAGENT_TRACE="x" cannot be used: write off or full',
  ]);
});

test("a stack is shown only when asked for, and of a long message only its first line", () => {
  const error = new Error("first\nsecond");
  expect(describeError(error, false)).toEqual(["first"]);
  expect(describeError(error, true)).toEqual(["first", error.stack]);
  expect(describeError(new Error(""), false)).toEqual(["unknown error"]);
});
