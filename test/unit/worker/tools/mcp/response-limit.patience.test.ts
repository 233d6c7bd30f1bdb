/** Guarantee: a call over HTTP waits as long as its `timeout_ms` says, and not only as long as `fetch` does by itself (300 s). */
import { createServer } from "node:http";
import { Agent, getGlobalDispatcher, setGlobalDispatcher } from "undici";
import { expect, it, onTestFinished } from "vitest";
import { MAX_CALL_MS } from "../../../../../src/shared/mcp-server.ts";
import { boundedFetch } from "../../../../../src/worker/tools/mcp/response-limit.ts";
import { listenUntilEnd } from "../../../../helpers/listen.ts";

it("an answer and its parts may be as late as the longest call allows, through the dispatcher of the process", async () => {
  const url = await listenUntilEnd(createServer((_, response) => void response.end("late")));
  const limits: unknown[] = [];
  const before = getGlobalDispatcher();
  const observed = new Agent().compose((dispatch) => (request, handler) => {
    limits.push(request.headersTimeout, request.bodyTimeout);
    return dispatch(request, handler);
  });
  setGlobalDispatcher(observed);
  onTestFinished(() => setGlobalDispatcher(before));
  const ask = boundedFetch({ bytes: 1_000, values: 100, depth: 20 }, () => {});
  const answer = await ask(url);
  expect(await answer.text()).toBe("late");
  expect(limits).toHaveLength(2);
  for (const limit of limits) expect(limit).toBeGreaterThan(MAX_CALL_MS);
});
