/** Guarantee: each refusal of MCP's own methods carries its code, and whether to try again. */
import { createServer } from "node:http";
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler } from "@modelcontextprotocol/server";
import { expect, test } from "vitest";
import { createClient } from "../../../../src/producer/client.ts";
import { createParent } from "../../../../src/producer/parent.ts";
import { createMcpServer } from "../../../../src/service/mcp/server.ts";
import { systemClock } from "../../../../src/shared/clock.ts";
import { listenUntilEnd } from "../../../helpers/listen.ts";
import { askMcp, type McpRequestOptions } from "../../../helpers/mcp.ts";

const NO_TASKS = { requiredCapabilities: { extensions: { "io.modelcontextprotocol/tasks": {} } } };

/** Returns the error of a call to a server whose Redis no refusal asks. */
async function refused(method: string, params: object, options: McpRequestOptions = {}) {
  const client = createClient({ redisUrl: "redis://127.0.0.1:1" });
  const parent = createParent({ client, parentId: "planner-7" });
  const handler = createMcpHandler(() => createMcpServer({ parent, clock: systemClock }));
  const url = await listenUntilEnd(createServer(toNodeHandler(handler)));
  return (await askMcp(`${url}/mcp`, method, params, options)).error;
}

test.for([
  ["an id of no task", "tasks/get", { taskId: "nothing" }, "not_found"],
  ["the cancelling of no task", "tasks/cancel", { taskId: "nothing" }, "not_found"],
  ["an id that is a number", "tasks/cancel", { taskId: 5 }, "invalid_input"],
  [
    "an answer of no kind",
    "tasks/update",
    { taskId: "nothing", inputResponses: { q: { action: "shrug" } } },
    "invalid_input",
  ],
  ["an unknown tool", "tools/call", { name: "paint" }, "not_found"],
] as const)("%s", async ([, method, params, code]) => {
  expect(await refused(method, params)).toMatchObject({ code: -32_602, data: { code, retryable: false } });
});

test.for(["tasks/get", "tasks/update", "tasks/cancel"])(
  "%s of a client that cannot follow tasks names the capability",
  async (method) => {
    expect(await refused(method, { taskId: "nothing" }, { followsTasks: false })).toEqual({
      code: -32_021,
      message: expect.stringMatching(/^Missing required client capability/),
      data: { ...NO_TASKS, code: "invalid_input", retryable: false },
    });
  },
);
