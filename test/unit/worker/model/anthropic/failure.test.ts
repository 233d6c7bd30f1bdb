import Anthropic from "@anthropic-ai/sdk";
import { describe, expect, test } from "vitest";
import { keepSecret } from "../../../../../src/shared/secrets.ts";
import {
  classify,
  MalformedAnswerError,
  redact,
  TimeLimitError,
  TruncatedStreamError,
} from "../../../../../src/worker/model/anthropic/failure.ts";

keepSecret("s3cret-value");
const context = { nowMs: 0 };

function coded(code: string, message = "it broke"): Error {
  return Object.assign(new Error(message), { code });
}

function response(status: number, error: object, headers: Record<string, string> = {}) {
  return Anthropic.APIError.generate(status, { type: "error", error }, undefined, new Headers(headers));
}

describe("what a provider says", () => {
  test("is a matter of billing where it speaks of the credit, whatever the status", () => {
    const said = { type: "invalid_request_error", message: "Your credit balance is too low" };
    expect(classify(response(400, said), context)).toMatchObject({ kind: "billing", retryable: false });
  });

  test.each([
    ["overloaded_error", "overloaded"],
    ["rate_limit_error", "rate_limited"],
    ["request_too_large", "context_window"],
    ["unheard_of", "server_error"],
  ])("within a stream, as %s, is %s", (type, kind) => {
    const body = { type: "error", error: { type, message: "no" } };
    const error = new Anthropic.APIError(undefined, body, undefined, undefined, type as "overloaded_error");
    expect(classify(error, context).kind).toBe(kind);
  });
});

describe("errors below HTTP", () => {
  test.each([
    ["ECONNREFUSED", "network", true],
    ["ECONNRESET", "network", true],
    ["ENOTFOUND", "network", true],
    ["EAI_AGAIN", "network", true],
    ["EPIPE", "network", true],
    ["UND_ERR_SOCKET", "network", true],
    ["CERT_HAS_EXPIRED", "network", false],
    ["DEPTH_ZERO_SELF_SIGNED_CERT", "network", false],
    ["UNABLE_TO_VERIFY_LEAF_SIGNATURE", "network", false],
    ["ERR_TLS_CERT_ALTNAME_INVALID", "network", false],
    ["ETIMEDOUT", "timeout", true],
    ["UND_ERR_CONNECT_TIMEOUT", "timeout", true],
    ["HPE_INVALID_CONSTANT", "invalid_response", true],
    ["UND_ERR_RES_EXCEEDED_MAX_SIZE", "invalid_response", true],
    ["ERR_INVALID_URL", "invalid_request", false],
    ["UND_ERR_INVALID_ARG", "invalid_request", false],
  ])("%s is %s, retryable %s, bare or wrapped by the SDK", (code, kind, retryable) => {
    const expected = { kind, retryable, message: `it broke (${code})` };
    expect(classify(coded(code), context)).toEqual(expected);
    expect(classify(new Anthropic.APIConnectionError({ cause: coded(code) }), context)).toEqual(expected);
  });

  test("the code stands for a message that is empty, as with several addresses refused", () => {
    const refused = Object.assign(new AggregateError([coded("ECONNREFUSED")]), { code: "ECONNREFUSED" });
    const failure = classify(new Anthropic.APIConnectionError({ cause: refused }), context);
    expect(failure).toMatchObject({ kind: "network", message: "ECONNREFUSED" });
  });

  test("the port's own faults and the SDK's time-outs have their kinds", () => {
    expect(classify(new TimeLimitError("too long"), context).kind).toBe("timeout");
    expect(classify(new Anthropic.APIConnectionTimeoutError(), context).kind).toBe("timeout");
    expect(classify(new TruncatedStreamError(), context)).toMatchObject({ kind: "network", retryable: true });
    expect(classify(new MalformedAnswerError("odd"), context)).toMatchObject({
      kind: "invalid_response",
      retryable: true,
    });
    expect(classify(new Anthropic.APIConnectionError({}), context).kind).toBe("network");
  });

  test("our own mistakes are not repeated", () => {
    expect(classify(new TypeError("bad header"), context)).toMatchObject({
      kind: "invalid_request",
      retryable: false,
    });
  });

  test.each([
    undefined,
    null,
    "text",
    7,
    {},
    Object.create(null),
    new Error("?"),
    new Anthropic.AnthropicError("?"),
  ])("anything else is an invalid response: %s", (thrown) => {
    expect(classify(thrown, context)).toMatchObject({ kind: "invalid_response", retryable: true });
  });

  test("a cause that refers to itself ends the search", () => {
    const error = new Error("round");
    error.cause = error;
    expect(classify(error, context).kind).toBe("invalid_response");
  });
});

describe("error responses", () => {
  test.each([
    ["prompt is too long: 210000 tokens > 200000 maximum"],
    ["input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"],
    ["This model's maximum context length is 8192 tokens"],
  ])("a 400 that says %j is a full context window", (message) => {
    const failure = classify(response(400, { type: "invalid_request_error", message }), context);
    expect(failure).toMatchObject({ kind: "context_window", retryable: false, httpStatus: 400 });
  });

  test.each([
    [400, "invalid_request", false],
    [401, "authentication", false],
    [402, "billing", false],
    [403, "permission", false],
    [404, "not_found", false],
    [408, "timeout", true],
    [409, "server_error", true],
    [413, "context_window", false],
    [429, "rate_limited", true],
    [499, "network", true],
    [500, "server_error", true],
    [503, "server_error", true],
    [504, "timeout", true],
    [529, "overloaded", true],
  ])("a %i of a proxy, whose body is none of ours, is %s", (httpStatus, kind, retryable) => {
    const error = Anthropic.APIError.generate(httpStatus, undefined, "<html>", new Headers());
    expect(classify(error, context)).toMatchObject({ kind, retryable, httpStatus });
  });

  test.each([
    ["contract_spend_limit_reached", "billing", false],
    ["enforced_spend_limit_reached", "billing", false],
    ["ramp_limit_exceeded", "rate_limited", true],
  ])("a 429 with the code %s is %s", (error_code, kind, retryable) => {
    const failure = classify(
      response(429, { type: "rate_limit_error", message: "m", details: { error_code } }),
      context,
    );
    expect(failure).toMatchObject({ kind, retryable });
  });

  test.each([500, 503, 599])("an overloaded_error is that under any 5xx status: %i", (status) => {
    expect(classify(response(status, { type: "overloaded_error", message: "m" }), context).kind).toBe(
      "overloaded",
    );
  });

  test.each([405, 412, 415, 422, 431])("status %i is an invalid request", (status) => {
    expect(classify(response(status, { message: "m" }), context)).toMatchObject({
      kind: "invalid_request",
      retryable: false,
    });
  });

  test("x-should-retry: false is obeyed, true does not make a terminal error retryable", () => {
    const should = (status: number, value: string) =>
      classify(response(status, { message: "m" }, { "x-should-retry": value }), context).retryable;
    expect(should(500, "false")).toBe(false);
    expect(should(500, "true")).toBe(true);
    expect(should(400, "true")).toBe(false);
  });

  test.each([{ message: { nested: true } }, { message: 7 }, {}, []])(
    "a body of odd shape %j is still described",
    (body) => {
      const failure = classify(response(500, body), context);
      expect(failure).toMatchObject({ kind: "server_error", retryable: true });
      expect(failure.message).toMatch(/^500 /);
    },
  );

  test("the message carries the request id and no secret", () => {
    const error = response(400, { message: "your key is s3cret-value" }, { "request-id": "req_1" });
    expect(classify(error, context).message).toBe("your key is [redacted] [req_1]");
  });
});

test("a secret behind blanks is masked before the text is cut: no half of it is left", () => {
  keepSecret("canary-horse-battery-42");
  expect(redact(`${" ".repeat(7_990)}canary-horse-battery-42`)).not.toContain("canary");
});
