/** The MCP server's address answers no other method than POST, and says so. */
import { once } from "node:events";
import { request } from "node:http";
import { beforeAll, expect, test } from "vitest";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { startApi, type TestApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

let api: TestApi;

beforeAll(async () => {
  const stage = await openStage();
  api = await startApi({ client: stage.client(), mounts: [mcpMount()] });
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
