import { APIError } from "@anthropic-ai/sdk";
import { expect, test } from "vitest";
import { classify } from "../../../../../src/worker/model/anthropic/failure.ts";

test.each([
  ["invalid_request_error", "invalid_request", false],
  ["authentication_error", "authentication", false],
  ["billing_error", "billing", false],
  ["permission_error", "permission", false],
  ["not_found_error", "not_found", false],
  ["request_too_large", "context_window", false],
  ["rate_limit_error", "rate_limited", true],
  ["overloaded_error", "overloaded", true],
  ["api_error", "server_error", true],
  ["an_error_of_next_year", "server_error", true],
])("a %s in the midst of a stream, where the status says nothing, is %s", (type, kind, retryable) => {
  const body = { type: "error", error: { type, message: "Sorry." } };
  const failure = classify(new APIError(undefined, body, undefined, undefined), { nowMs: 0 });
  expect(failure).toEqual({ kind, retryable, message: "Sorry." });
});

test("a timeout_error in the midst of a stream has the status of its response: none would say that this side ended the call", () => {
  const body = { type: "error", error: { type: "timeout_error", message: "Sorry." } };
  const failure = classify(new APIError(undefined, body, undefined, undefined), { nowMs: 0 });
  expect(failure).toEqual({ kind: "timeout", retryable: true, message: "Sorry.", httpStatus: 200 });
});
