/** What belongs to another tenant is unknown at every door: answered as what never was, and nothing of it changes. */
import { beforeAll, expect, test } from "vitest";
import { AGENT_PROTOCOL_PATH, agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { newUid } from "../../../src/shared/protocol/ids.ts";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { type AskOptions, readEvents, startApi, type TestApi } from "../../helpers/api.ts";
import { askMcp } from "../../helpers/mcp.ts";
import { keysLike } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

/** Stands in all that the rival said and was told, and in no answer to anybody else. */
const SECRET = "xyzzy";
/** Of the rival, and of nobody. Each pair has one length. */
const [PARENT, NO_PARENT, AGENT, NO_AGENT] = ["vault", "never", "gold", "none"];

let stage: Stage;
let api: TestApi;
/** Keys by their tenant. */
let [mine, theirs, own] = ["", "", ""];
let thread = "";
let [task, reply] = ["", ""];

beforeAll(async () => {
  const says = [{ content: [{ type: "text" as const, text: SECRET }] }];
  stage = await openStage({ scenario: [{ turns: says }] });
  const worker = await stage.startWorker();
  api = await startApi({ client: stage.client(), mounts: [mcpMount(), agentProtocol()] });
  const keys = createApiKeys(stage.redis, stage.keys);
  const keyOf = async (tenant: string) => (await keys.create({ tenant, name: "all", scope: "admin" })).token;
  [mine, theirs, own] = [await keyOf("mine"), await keyOf("rival"), await keyOf("own")];
  await fill();
  // From here on nothing moves by itself.
  await worker.stop();
});

/** Gives the rival one of everything, at rest. */
async function fill(): Promise<void> {
  const rival = (method: string, path: string, body?: unknown, headers = {}) =>
    api.ask(method, path, { token: theirs, ...(body !== undefined && { body }), headers });
  const parent = `/v1/parents/${PARENT}`;
  const header = { "x-parent-id": PARENT };
  await rival("PUT", parent, { system: SECRET });
  await rival("PUT", `${parent}/webhook`, { url: `https://${SECRET}.invalid/` });
  const files = [{ path: `${SECRET}.txt`, content: SECRET }];
  await rival("POST", `${parent}/tasks`, { name: AGENT, prompt: SECRET, files, request_key: "once" });
  thread = (await rival("POST", `${AGENT_PROTOCOL_PATH}/threads`, {}, header)).body.thread_id;
  const run = { assistant_id: "thread", input: { messages: [{ role: "user", content: SECRET }] } };
  await rival("POST", `${AGENT_PROTOCOL_PATH}/threads/${thread}/runs`, run, header);
  const replies = await until(async () => {
    const { body } = await rival("GET", `${parent}/replies`);
    return body.replies.length === 2 && body.replies;
  });
  task = replies.find(({ agent_id }: { agent_id: string }) => agent_id === AGENT).reply_id;
  reply = replies.find(({ agent_id }: { agent_id: string }) => agent_id !== AGENT).reply_id;
}

/** All that stands in Redis under the rival's name, but for what the pushing to its webhook writes. */
async function vault(): Promise<Map<string, string | undefined>> {
  const found = await keysLike(stage.redis, `${stage.prefix}*rival*`);
  const names = found.filter((name) => !name.endsWith(":webhook")).sort();
  const dumps = await Promise.all(names.map((name) => stage.redis.dumpBuffer(name)));
  return new Map(names.map((name, n) => [name, dumps[n]?.toString("hex")]));
}

/** An answer without what differs from one request to the same again. */
function likeness({ status, body }: { status: number; body: unknown }): string {
  const text = `${status} ${typeof body === "string" ? body : JSON.stringify(body)}`;
  expect(text).not.toContain(SECRET);
  return text
    .replaceAll(new RegExp(`${PARENT}|${NO_PARENT}`, "g"), "PARENT")
    .replaceAll(new RegExp(`${AGENT}|${NO_AGENT}`, "g"), "AGENT")
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
    .replaceAll(/sa-[0-9a-f]{24}/g, "UID")
    .replaceAll(/(?:whsec_|wh_)?[\w+/=-]{20,}/g, "RANDOM");
}

const BODIES: Readonly<Record<string, unknown>> = {
  task: { prompt: "Say hello", request_key: "once" },
  spawn: { name: AGENT, request_key: "once" },
  sendMessage: { text: "Say hello" },
  answerQuestion: { text: "blue" },
  resumeAgent: { text: "Say hello" },
  registerProfile: { system: "Be brief." },
  setWebhook: { url: "https://example.com/" },
};

test("over HTTP, on every route, with whatever headers", async () => {
  const before = await vault();
  const { paths } = (await api.ask("GET", "/openapi.json")).body;
  const operations = Object.entries<Record<string, { operationId: string }>>(paths).flatMap(([path, rows]) =>
    Object.entries(rows).flatMap(([method, row]) =>
      method === "parameters" || row.operationId === "followEvents"
        ? []
        : [{ path, method, id: row.operationId }],
    ),
  );
  expect(operations.length).toBeGreaterThan(20);
  const tricks = {
    "x-tenant": "rival",
    "x-forwarded-for": "127.0.0.1",
    "x-parent-id": PARENT,
    forwarded: "for=rival",
  };
  const asked: string[] = [];
  for (const { path, method, id } of operations) {
    const body = id === "ackReplies" ? { reply_ids: [task, reply] } : BODIES[id];
    const at = (parent: string, agent: string) =>
      api.ask(
        method.toUpperCase(),
        path.replace("{parent}", parent).replace("{agent}", agent).replace("{path}", `${SECRET}.txt`),
        { token: mine, ...(body !== undefined && { body }), headers: { ...tricks, "last-event-id": "0-1" } },
      );
    const answers = [await at(PARENT, AGENT), await at(NO_PARENT, NO_AGENT)];
    const [seen, never] = answers.map(likeness);
    expect(seen, id).toBe(never);
    asked.push(`${id} ${answers[0]?.status}`);
  }
  expect(asked).toContain("getAgent 404");
  expect(asked).toContain("readFile 404");
  expect(await vault()).toEqual(before);
  const webhook = await api.ask("GET", `/v1/parents/${PARENT}/webhook`, { token: theirs });
  expect(webhook.body.url).toContain(SECRET);
});

test("as an event stream, from its beginning on", async () => {
  const agents = `/v1/parents/${PARENT}/agents`;
  await api.ask("POST", agents, { token: own, body: { name: "brief" } });
  await api.ask("DELETE", `${agents}/brief`, { token: own });
  for (const what of ["events?after=0", "replies"]) {
    const over = new AbortController();
    const events = readEvents(`${api.url}/v1/parents/${PARENT}/${what}`, { token: own, signal: over.signal });
    expect(JSON.stringify(await events.next())).toContain('"brief"');
    over.abort();
    await events.next().catch(() => {});
  }
});

test("as threads and runs of the Agent Protocol", async () => {
  const before = await vault();
  const nobodys = newUid().replace(/..$/, "00");
  const headers = { "x-parent-id": PARENT };
  const at = (method: string, path: string, id: string, options: AskOptions = {}) =>
    api.ask(method, `${AGENT_PROTOCOL_PATH}/threads/${id}${path.replace("RUN", `${id}.1`)}`, {
      token: mine,
      headers,
      ...options,
    });
  for (const [method, path] of [
    ["GET", ""],
    ["GET", "/state"],
    ["GET", "/history"],
    ["GET", "/runs"],
    ["GET", "/runs/RUN"],
    ["GET", "/runs/RUN/join"],
    ["POST", "/runs/RUN/cancel"],
    ["DELETE", ""],
  ] as const)
    expect(likeness(await at(method, path, thread)), `${method} ${path}`).toBe(
      likeness(await at(method, path, nobodys)),
    );
  expect(await vault()).toEqual(before);
});

test("as tasks and tools of MCP", async () => {
  const before = await vault();
  const [uid = ""] = task.split(".");
  const ask = async (method: string, params: object) => {
    const { result, error } = await askMcp(`${api.url}/mcp?parent=${PARENT}`, method, params, {
      token: mine,
    });
    return likeness({ status: error?.code ?? 0, body: { result, error } });
  };
  for (const [method, more] of [
    ["tasks/get", {}],
    ["tasks/cancel", {}],
    ["tasks/update", { inputResponses: { q: { content: { answer: "blue" } } } }],
  ] as const)
    expect(await ask(method, { taskId: `${uid}.1`, ...more })).toBe(
      await ask(method, { taskId: `${newUid()}.1`, ...more }),
    );
  for (const [name, input] of [
    ["check_sub_agent", (agent_id: string) => ({ agent_id })],
    ["send_agent_message", (target_agent_id: string) => ({ target_agent_id, message: "Say hello" })],
    ["destroy_sub_agent", (agent_id: string) => ({ agent_id })],
  ] as const)
    expect(await ask("tools/call", { name, arguments: input(AGENT) })).toBe(
      await ask("tools/call", { name, arguments: input(NO_AGENT) }),
    );
  expect(await ask("tools/call", { name: "list_sub_agents", arguments: {} })).not.toContain("AGENT");
  expect(await vault()).toEqual(before);
});

test.for([
  `/v1/parents/rival%2F${PARENT}/agents`,
  `/v1/parents/..%2Frival%2F${PARENT}/agents`,
  `/v1/parents/rival}:${PARENT}/agents`,
  `//v1/parents/${PARENT}//agents`,
  `/v1/parents/${PARENT}%00/agents`,
  `/v1/parents/${PARENT}%0a/agents`,
  "/v1/parents/%ff/agents",
  "/v1/parents/%EF%BD%96ault/agents",
  "/v1/parents/__proto__/agents",
  "/v1/parents/constructor/agents",
  "/v1/parents/mine/agents/__proto__",
  "/v1/parents/mine/agents/constructor/reply",
  `/v1/parents/mine/agents/${AGENT}/files/..%2f..%2f..%2f..%2frival%2f${PARENT}%2fagents%2f${AGENT}%2fworkspace%2f${SECRET}.txt`,
])("the address %s reaches nothing of it", async (path) => {
  const before = await vault();
  const { status, body } = await api.ask("GET", path, { token: mine });
  expect([200, 400, 404, 422]).toContain(status);
  if (status === 200) expect(body).toEqual({ sub_agents: [] });
  else expect(JSON.stringify(body)).not.toMatch(/\/(tmp|home|work|src)\//);
  expect(await vault()).toEqual(before);
});
