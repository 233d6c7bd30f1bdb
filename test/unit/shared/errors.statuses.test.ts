import { expect, test } from "vitest";
import { ERRORS, type ErrorCode, SubagentError } from "../../../src/shared/errors.ts";

test.for<[number, ErrorCode[]]>([
  [400, ["invalid_input", "unknown_price"]],
  [401, ["unauthorized"]],
  [403, ["forbidden", "nested_spawn"]],
  [405, ["method_not_allowed"]],
  [413, ["too_large"]],
  [415, ["unsupported_media_type"]],
  [429, ["quota_exceeded", "inbox_full", "rate_limited"]],
  [503, ["redis_unavailable", "outcome_unknown", "no_worker", "timed_out", "closed"]],
])("an HTTP client is told %i for what that status means", ([status, codes]) => {
  expect(codes.map((code) => new SubagentError(code, "Do this.").httpStatus)).toEqual(
    codes.map(() => status),
  );
});

test("the same call may succeed later where something passes by itself, and only there", () => {
  const retryable = (Object.keys(ERRORS) as ErrorCode[]).filter(
    (code) => new SubagentError(code, "x").retryable,
  );
  expect(retryable.sort()).toEqual([
    "inbox_full",
    "no_worker",
    "outcome_unknown",
    "quota_exceeded",
    "rate_limited",
    "redis_unavailable",
    "timed_out",
  ]);
});

test("a cause shows the causes behind it", () => {
  const deepest = new TypeError("socket hang up");
  const cause = new Error("request failed", { cause: new Error("no answer", { cause: deepest }) });
  const error = new SubagentError("redis_unavailable", "Call again.", {}, cause);
  expect(error).toMatchObject({
    cause: {
      message: "request failed",
      cause: { message: "no answer", cause: { message: "socket hang up" } },
    },
  });
});
