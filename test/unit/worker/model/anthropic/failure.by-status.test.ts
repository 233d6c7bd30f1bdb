/** Guarantee: what a status says is not overruled by words that mean something else with another status. */
import { expect, test } from "vitest";
import { ask, connect, hold, refuse, startProvider } from "../scripted-provider.ts";

test.each([
  [429, "rate_limit_error", "Too many tokens per minute, please wait.", "rate_limited", true],
  [500, "api_error", "The context window of the cache was lost.", "server_error", true],
  [500, "invalid_request_error", "No.", "server_error", true],
  [400, "invalid_request_error", "The prompt has too many tokens.", "context_window", false],
  [400, "rate_limit_error", "Slow down.", "rate_limited", true],
  [422, "permission_error", "Not yours.", "permission", false],
])("%d %s: %j is %s, retryable %s", async (status, type, message, kind, retryable) => {
  const provider = await startProvider((response) => refuse(response, status, type, message));
  expect(await connect(provider).call(ask(), hold())).toMatchObject({
    status: "failed",
    failure: { kind, retryable, httpStatus: status, message: `${message} [req_42]` },
  });
});

test("what a proxy says in plain text reaches the reader of the failure", async () => {
  const provider = await startProvider((response) =>
    response.writeHead(502, { "content-type": "text/plain" }).end("The upstream of this gateway is down."),
  );
  expect(await connect(provider).call(ask(), hold())).toMatchObject({
    failure: { kind: "server_error", message: expect.stringContaining("upstream of this gateway is down") },
  });
});
