/** What the MCP server's address refuses before it reads a message. */
import { once } from "node:events";
import { request } from "node:http";
import { beforeAll, expect, test } from "vitest";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { startApi, type TestApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

const MANY = Object.fromEntries(Array.from({ length: 1_001 }, (_, number) => [`field${number}`, number]));
const TOO_MANY = expect.stringContaining("nothing was done: an object has more than 1000 fields");

let api: TestApi;

beforeAll(async () => {
  const stage = await openStage();
  api = await startApi({ client: stage.client(), mounts: [mcpMount()] });
});

test.for([
  ["a message", MANY],
  ["the parameters of a message", { params: MANY }],
] as const)("%s with more fields than any message has", async ([, more]) => {
  const body = { jsonrpc: "2.0", id: 1, method: "tools/call", ...more };
  const answer = await api.ask("POST", "/mcp", { body });
  expect(answer).toMatchObject({ status: 400, body: { error: { code: -32_600, message: TOO_MANY } } });
});

// `fetch` sends no TRACE.
test.for(["TRACE", "GET", "DELETE", "PATCH"])("%s", async (method) => {
  const sent = request(`${api.url}/mcp`, { method });
  const answered = once(sent, "response");
  sent.end();
  const [response] = await answered;
  expect([response.statusCode, response.headers.allow]).toEqual([405, "POST"]);
  let text = "";
  for await (const chunk of response.setEncoding("utf8")) text += chunk;
  expect(JSON.parse(text)).toMatchObject({
    id: null,
    error: { code: -32_600, data: { code: "method_not_allowed", retryable: false } },
  });
});
