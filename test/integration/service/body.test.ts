/** Bodies are refused by their measures before a parser sees them, at every door; no answer repeats what was refused. */
import { beforeAll, expect, test } from "vitest";
import { agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { type AskOptions, startApi, type TestApi } from "../../helpers/api.ts";
import { openStage } from "../../stage/stage.ts";

const DOORS = ["/v1/parents/p/agents", "/v1/parents/p/tasks", "/agent-protocol/threads", "/mcp"];
const ANSWER_MAX_CHARS = 5_000;

let api: TestApi;

beforeAll(async () => {
  const stage = await openStage();
  api = await startApi({ client: stage.client(), mounts: [mcpMount(), agentProtocol()] });
});

const send = async (path: string, body: unknown, headers: AskOptions["headers"] = {}) => {
  const accept = "application/json, text/event-stream";
  const answer = await api.ask("POST", path, { body, headers: { accept, ...headers } });
  return { ...answer, text: typeof answer.body === "string" ? answer.body : JSON.stringify(answer.body) };
};

test.for(DOORS)(
  "%s refuses what nests deeply, what holds many values, and what is not UTF-8",
  async (path) => {
    const deep = "[".repeat(400_000) + "]".repeat(400_000);
    const many = `[${"{},".repeat(300_000)}1]`;
    const wrongs = [
      [`{"name": "a", "prompt": "b", "params": ${deep}}`, /deeper than 64 levels/],
      [`{"name": "a", "prompt": "b", "params": {"a": ${many}}}`, /more than 50000 values/],
    ] as const;
    for (const [body, sentence] of wrongs) {
      const answer = await send(path, body);
      expect(answer.status).toBe(400);
      expect(answer.text).toMatch(sentence);
    }
    const type = { "content-type": "application/json; charset=utf-16" };
    expect((await send(path, "{}", type)).text).toMatch(/not UTF-8/);
  },
);

const BIG = "y".repeat(500_000);
const META = "io.modelcontextprotocol/";
const NEWEST = { [`${META}protocolVersion`]: "2026-07-28", [`${META}clientCapabilities`]: {} };

test.for([
  ["an id", { id: BIG, params: {} }],
  ["a method", { method: BIG, params: {} }],
  ["a method of the newest revision", { method: BIG, params: { _meta: NEWEST } }],
  ["a version", { params: { _meta: { ...NEWEST, [`${META}protocolVersion`]: BIG } } }],
  ["the name of a task", { method: "tasks/get", params: { taskId: BIG, _meta: NEWEST } }],
  ["the name of a tool", { method: "tools/call", params: { name: BIG } }],
  ["the name of an argument", { method: "tools/call", params: { name: "task", arguments: { [BIG]: 1 } } }],
  ["a field of the message", { [BIG]: 1, params: {} }],
] as const)("what MCP answers to a message with %s of 500 KB is short", async ([, message]) => {
  const { text } = await send(
    "/mcp",
    { jsonrpc: "2.0", id: 1, method: "tools/call", ...message },
    { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call" },
  );
  expect(text).toContain('"error"');
  expect(text.length).toBeLessThan(ANSWER_MAX_CHARS);
});

test("MCP answers one message a request, and what it cannot read by the protocol's codes", async () => {
  const list = { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} };
  expect((await send("/mcp", [list, list])).body).toMatchObject({ id: null, error: { code: -32_600 } });
  expect(await send("/mcp", "{broken")).toMatchObject({ status: 400, body: { error: { code: -32_700 } } });
  expect((await send("/mcp", list)).text).toContain("spawn_sub_agent");
});
