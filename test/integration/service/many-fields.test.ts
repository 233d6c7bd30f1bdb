/** What has more fields than any call knows is refused before it is read: reading it would delay every other client. */
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
  ["a message to /mcp", MANY],
  ["the params of a message to /mcp", { params: MANY }],
  ["its arguments", { params: { name: "task", arguments: MANY } }],
  ["its inputResponses", { params: { name: "task", inputResponses: MANY } }],
] as const)("%s", async ([, more]) => {
  const body = { jsonrpc: "2.0", id: 1, method: "tools/call", ...more };
  const answer = await api.ask("POST", "/mcp", { body });
  expect(answer).toMatchObject({ status: 400, body: { error: { code: -32_600, message: TOO_MANY } } });
});

test("a task of the API", async () => {
  const answer = await api.ask("POST", "/v1/parents/planner-7/tasks", { body: { prompt: "go", ...MANY } });
  expect(answer).toMatchObject({ status: 400, body: { code: "invalid_input", detail: TOO_MANY } });
});
