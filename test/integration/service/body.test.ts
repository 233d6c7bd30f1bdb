/**
 * Bodies are refused by their measures before a parser sees them, at every door; no answer repeats what was refused. How many bytes
 * of them a process holds is bounded for each tenant.
 */
import { connect, type Socket } from "node:net";
import { beforeAll, expect, test } from "vitest";
import { agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { type AskOptions, startApi, type TestApi } from "../../helpers/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";
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
    const latin1 = Buffer.from('{"name": "a", "prompt": "caf\u00e9"}', "latin1");
    const answer = await send(path, latin1);
    expect(answer.status).toBe(400);
    expect(answer.text).toMatch(/not UTF-8: encode its text so/);
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

const LARGE_BYTES = 8 * 1_024 * 1_024;
/** As many large bodies as fit into what a process holds for one tenant. */
const MOST_LARGE = 32;

/** An API with a key for each of two tenants. */
async function twoTenants() {
  const keyed = await openStage();
  const door = await startApi({ client: keyed.client() });
  const keys = createApiKeys(keyed.redis, keyed.keys);
  const keyOf = async (tenant: string) => (await keys.create({ tenant, name: "all", scope: "spawn" })).token;
  return { door, greedy: await keyOf("greedy"), modest: await keyOf("modest") };
}

/** Begins a request with a large body that never comes, or with one in chunks. */
function announce({ url }: TestApi, token: string, framing: string): Socket {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  socket.on("error", () => {});
  closeAtEnd(() => void socket.destroy());
  const head = ["POST /v1/parents/p/agents HTTP/1.1", "Host: 127.0.0.1", `Authorization: Bearer ${token}`];
  const body = ["Content-Type: application/json", framing, "", ""];
  socket.write([...head, ...body].join("\r\n"));
  return socket;
}

/** What a request with a small body is told, one that is refused for what it says. */
const small = (door: TestApi, token: string) =>
  door.ask("POST", "/v1/parents/p/agents", { token, body: { name: 7 } });

test.for([
  ["with a length", `Content-Length: ${LARGE_BYTES}`],
  ["in chunks", "Transfer-Encoding: chunked"],
] as const)(
  "the bodies that one tenant announces are bounded, %s, and shut out no other tenant's",
  async ([, framing]) => {
    const { door, greedy, modest } = await twoTenants();
    const sockets: Socket[] = [];
    // A few at a time: on a slow machine the time of the first may be over before all are there.
    const refused = await until(async () => {
      for (let i = 0; i < MOST_LARGE / 4; i++) sockets.push(announce(door, greedy, framing));
      const answer = await small(door, greedy);
      return answer.status === 429 && answer;
    });
    expect(sockets.length).toBeGreaterThanOrEqual(MOST_LARGE);
    expect(refused.body).toMatchObject({ code: "rate_limited", retryable: true });
    expect(refused.body.detail).toContain("bodies of this tenant");
    expect((await small(door, modest)).status).toBe(400);
    for (const socket of sockets) socket.destroy();
    await until(async () => (await small(door, greedy)).status === 400);
  },
);

test("a body in chunks is counted by what has come of it", async () => {
  const { door, greedy: token } = await twoTenants();
  const leaving = new AbortController();
  const parents = Array.from({ length: MOST_LARGE + 1 }, (_, i) => `/v1/parents/p-${i}`);
  const text = JSON.stringify({ prompt: "Say hello" });
  for (const parent of parents)
    fetch(`${door.url}${parent}/tasks?wait=300`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body: new Blob([text]).stream(),
      duplex: "half",
      signal: leaving.signal,
    }).catch(() => {});
  for (const parent of parents)
    await until(async () => (await door.ask("GET", `${parent}/agents`, { token })).body.sub_agents.length);
  expect((await small(door, token)).status).toBe(400);
  leaving.abort();
});
