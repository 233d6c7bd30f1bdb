/** At every door a reply is acked when the answer that carries it has left, and never before. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { beforeAll, beforeEach, expect, test } from "vitest";
import type { Parent } from "../../../src/producer/parent.ts";
import { agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { createIntake } from "../../../src/service/intake/intake.ts";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { ask, startApi } from "../../helpers/api.ts";
import { bundled } from "../../helpers/bundle.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { holdAnswers } from "../../helpers/held-answers.ts";
import { askMcp } from "../../helpers/mcp.ts";
import { startProxy } from "../../helpers/proxy.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const PROMPT = "Say hello";
/** A run that brings nothing but its end. */
const REFUSED = { match: { user: "refused" }, turns: [{ content: [], stop_reason: "refusal" as const }] };

let stage: Stage;
let api: string;
let client: ReturnType<Stage["client"]>;
let parents = 0;
let parentId: string;

beforeAll(async () => {
  stage = await openStage({ scenario: [REFUSED] });
  await stage.startWorker();
  client = stage.client();
  api = (await startApi({ client, mounts: [mcpMount(), agentProtocol()] })).url;
});

beforeEach(() => {
  parents += 1;
  parentId = `acks-${parents}`;
});

const unacked = () => stage.redis.xlen(stage.keys.parent({ tenant: "default", parentId }).replies);

/** What the door's client has begun is done: all that it sends goes over one connection, in its order. */
async function passBy(parent: Parent = stage.parent(parentId, { client })): Promise<void> {
  for (let call = 0; call < 3; call++) await parent.list();
}

const protocol = (method: string, path: string, body?: object) =>
  ask(`${api}/agent-protocol${path}`, method, {
    ...(body && { body }),
    headers: { "x-parent-id": parentId },
  });
const run = { assistant_id: "helper", input: { messages: [{ role: "user", content: PROMPT }] } };

/** A thread of the Agent Protocol whose run is over. */
async function endedThread(): Promise<string> {
  const { thread_id } = (await protocol("POST", "/threads")).body;
  await protocol("POST", `/threads/${thread_id}/runs`, run);
  await until(async () => (await unacked()) === 1);
  return thread_id;
}

const mcp = (method: string, params: object, followsTasks: boolean) =>
  askMcp(`${api}/mcp?parent=${parentId}`, method, params, { followsTasks });
const TASK = { name: "task", arguments: { prompt: PROMPT } };

/** By name: prepares, and answers with what asks for the reply. */
const DOORS: Readonly<Record<string, () => Promise<() => Promise<unknown>>>> = {
  "HTTP with wait=": async () => () =>
    ask(`${api}/v1/parents/${parentId}/tasks?wait=30`, "POST", {
      body: { prompt: PROMPT, request_key: "once" },
    }),
  "a plain MCP call": async () => () => mcp("tools/call", TASK, false),
  "an MCP task": async () => {
    const { result } = await mcp("tools/call", TASK, true);
    await until(async () => (await unacked()) === 1);
    return () => mcp("tasks/get", { taskId: result?.taskId }, true);
  },
  "an MCP tool": async () => {
    await stage.parent(parentId, { client }).spawn({ name: "helper", keep_alive: true });
    await stage.parent(parentId, { client }).send("helper", PROMPT);
    await until(async () => (await unacked()) === 1);
    return () => mcp("tools/call", { name: "check_sub_agent", arguments: { agent_id: "helper" } }, false);
  },
  "a thread's state": async () => {
    const thread = await endedThread();
    return () => protocol("GET", `/threads/${thread}/state`);
  },
  "a thread's join": async () => {
    const thread = await endedThread();
    const [{ run_id }] = (await protocol("GET", `/threads/${thread}/runs`)).body;
    return () => protocol("GET", `/threads/${thread}/runs/${run_id}/join`);
  },
  "a thread's stream": async () => {
    const { thread_id } = (await protocol("POST", "/threads")).body;
    return () => protocol("POST", `/threads/${thread_id}/runs/stream`, run);
  },
};

test.for(Object.entries(DOORS))(
  "%s: an answer that has not left acks nothing, one that has acks its reply",
  async ([name, prepare]) => {
    const askForReply = await prepare();
    const held = holdAnswers(api);
    const asked = askForReply().catch(() => "cut off");
    await until(() => held.count === 1);
    await passBy();
    expect(await unacked()).toBe(1);
    held.cutOff();
    expect(await asked).toBe("cut off");
    await passBy();
    expect(await unacked()).toBe(1);
    // A plain call of MCP has no key: the same again is another task.
    const left = name === "a plain MCP call" ? 1 : 0;
    await askForReply();
    await until(async () => (await unacked()) === left);
  },
);

test.for([
  ["HEAD", {}, 200],
  ["GET", { "if-none-match": "*" }, 304],
] as const)(
  "a thread's state: %s with %o is answered without a body, and acks nothing",
  async ([method, headers, status]) => {
    const thread = await endedThread();
    // Not by fetch, which asks again for what was not changed.
    const asked = request(`${api}/agent-protocol/threads/${thread}/state`, {
      method,
      headers: { ...headers, "x-parent-id": parentId },
    }).end();
    const [answer] = (await once(asked, "response")) as [IncomingMessage];
    expect([answer.statusCode, await text(answer)]).toEqual([status, ""]);
    await passBy();
    expect(await unacked()).toBe(1);
  },
);

test.for(["its wait is over", "its client has left", "its key was revoked"] as const)(
  "a task that was not answered with its reply leaves it to a reader of the same client: %s",
  async (why) => {
    const door = await openStage();
    const clock = handClock();
    const { redis, keys } = door;
    const shared = door.client();
    const one = await startApi({ client: shared, clock });
    const created = await createApiKeys(redis, keys).create({ tenant: "default", name: "k", scope: "spawn" });
    const seen: string[] = [];
    const read = async () => {
      for await (const { reply_id } of door.parent(parentId, { client: shared }).replies())
        seen.push(reply_id);
    };
    void read();
    const left = new AbortController();
    const path = `/v1/parents/${parentId}/tasks?wait=300`;
    const options = { token: created.token, body: { prompt: PROMPT }, signal: left.signal };
    const asked = one.ask("POST", path, options).then(
      ({ status }) => status,
      () => "gone",
    );
    const worker = door.scriptedWorker(parentId);
    const uid = await worker.uidOf("task");
    if (why === "its wait is over") {
      let isOver = false;
      void asked.then(() => {
        isOver = true;
      });
      // It begins a moment after the task is there.
      await until(() => {
        clock.advance(300_000);
        return isOver;
      });
    }
    if (why === "its client has left") {
      left.abort();
      await asked;
    }
    if (why === "its key was revoked") {
      await createApiKeys(redis, keys).revoke(created.key_id);
      clock.advance(15_000);
    }
    await worker.run("task");
    expect(await asked).toBe(
      { "its wait is over": 202, "its client has left": "gone" }[why as string] ?? 401,
    );
    await until(() => seen.length === 1, { what: "the reply to come to the reader" });
    expect(seen).toEqual([`${uid}.1`]);
  },
);

/** By door: the path and the body of a request that waits for its reply. */
const WAITING: Readonly<Record<string, () => readonly [string, object]>> = {
  "HTTP with wait=": () => [`/v1/parents/${parentId}/tasks?wait=30`, { prompt: PROMPT }],
  "a plain MCP call": () => [
    `/mcp?parent=${parentId}`,
    { jsonrpc: "2.0", id: 1, method: "tools/call", params: TASK },
  ],
};

test.for(Object.entries(WAITING))(
  "%s: a client that left while the process stood still has not got the reply that came meanwhile",
  async ([, waiting]) => {
    const door = await openStage();
    const unread = () => door.redis.xlen(door.keys.parent({ tenant: "default", parentId }).replies);
    const proxy = await startProxy(Number(new URL(door.url).port));
    const frozen = door.client({ redisUrl: `redis://127.0.0.1:${proxy.port}` });
    const { url } = await startApi({ client: frozen, mounts: [mcpMount()] });
    const [path, body] = waiting();
    const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
    const asked = request(url + path, { method: "POST", headers, agent: false }).on("error", () => {});
    asked.end(JSON.stringify(body));
    const worker = door.scriptedWorker(parentId);
    await worker.uidOf("task");
    await passBy(door.parent(parentId, { client: frozen }));
    proxy.pause();
    await worker.run("task");
    expect(await unread()).toBe(1);
    // Both are there before the process looks at its connections again.
    proxy.resume();
    asked.destroy();
    await passBy(door.parent(parentId, { client: frozen }));
    await passBy(door.parent(parentId, { client: frozen }));
    expect(await unread()).toBe(1);
  },
);

test("a thread's stream: an error without the reply acks nothing", async () => {
  const { thread_id } = (await protocol("POST", "/threads")).body;
  const messages = [{ role: "user", content: "refused" }];
  const { body } = await protocol("POST", `/threads/${thread_id}/runs/stream`, {
    ...run,
    input: { messages },
  });
  expect(body.match(/^event: .*/gm)).toEqual(["event: metadata", "event: error"]);
  await passBy();
  expect(await unacked()).toBe(1);
});

test("a job of the intake queue: its reply is acked when it stands in the job", async () => {
  // Its worker comes last, so that the job is in hand when the intake's way to Redis is closed.
  const late = await openStage();
  const { keys, prefix, url } = late;
  const { hostname, port } = new URL(url);
  const proxy = await startProxy(Number(port));
  const logger = createLogger({ level: "silent" });
  const door = late.client();
  const redisUrl = `redis://${hostname}:${proxy.port}`;
  const intake = createIntake({ redisUrl, prefix, client: door, logger });
  closeAtEnd(() => intake.stop());
  await intake.start();
  const redis = new Redis(url, { maxRetriesPerRequest: null });
  closeAtEnd(() => redis.disconnect());
  const queue = new Queue(keys.intakeQueue, { connection: redis, prefix: keys.bullPrefix });
  closeAtEnd(() => queue.close());
  const { id = "" } = await queue.add("report", { parent_id: parentId, prompt: PROMPT });
  const parent = late.parent(parentId, { client: door });
  await until(async () => (await parent.list()).length === 1);
  proxy.pause();
  await late.startWorker();
  const waiting = () => late.redis.xlen(keys.parent({ tenant: "default", parentId }).replies);
  await until(async () => (await waiting()) === 1);
  await passBy(parent);
  expect(await waiting()).toBe(1);
  proxy.resume();
  await until(async () => (await waiting()) === 0);
  expect((await queue.getJob(id))?.returnvalue).toMatchObject({ agent_id: "task", status: "succeeded" });
});

/** The MCP server over stdio as a program of its own; `ask` sends one request and has the answer of its id. */
async function stdioServer(redisUrl: string) {
  const env = { PATH: process.env.PATH, REDIS_URL: redisUrl, SUBAGENT_PREFIX: stage.prefix };
  const args = [await bundled("src/cli/main.ts"), "mcp", "--parent", parentId];
  const child = spawn(process.execPath, args, { env, stdio: ["pipe", "pipe", "pipe"] });
  closeAtEnd(async () => {
    if (child.kill("SIGKILL")) await once(child, "close");
  });
  const answers = new Map<number, () => void>();
  createInterface(child.stdout).on("line", (line) => answers.get(JSON.parse(line).id)?.());
  const tell = (message: object) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const ask = (id: number, method: string, params: object = {}) =>
    new Promise<void>((resolve) => {
      answers.set(id, resolve);
      tell({ id, method, params });
    });
  const client = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } };
  await ask(0, "initialize", client);
  tell({ method: "notifications/initialized" });
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    log += text;
  });
  return { ask, tell, child, log: () => log };
}

test("MCP over stdio: a call that was answered acks its reply", async () => {
  await stage.parent(parentId, { client }).spawn({ name: "helper", keep_alive: true });
  await stage.parent(parentId, { client }).send("helper", PROMPT);
  await until(async () => (await unacked()) === 1);
  const { ask } = await stdioServer(stage.url);
  await ask(1, "tools/call", { name: "check_sub_agent", arguments: { agent_id: "helper" } });
  await until(async () => (await unacked()) === 0);
});

test("MCP over stdio: a call that was cancelled acks nothing, also when its id comes again", async () => {
  const { hostname, port } = new URL(stage.url);
  const proxy = await startProxy(Number(port));
  await stage.parent(parentId, { client }).spawn({ name: "helper", keep_alive: true });
  await stage.parent(parentId, { client }).send("helper", PROMPT);
  await until(async () => (await unacked()) === 1);
  const { ask, tell } = await stdioServer(`redis://${hostname}:${proxy.port}`);
  const list = (id: number) => ask(id, "tools/call", { name: "list_sub_agents", arguments: {} });
  await list(1);
  proxy.pause();
  void ask(7, "tools/call", { name: "check_sub_agent", arguments: { agent_id: "helper" } });
  await until(() => proxy.held !== "");
  tell({ method: "notifications/cancelled", params: { requestId: 7 } });
  await ask(2, "tools/list");
  proxy.resume();
  // The check goes on to its end: all goes over one connection, in its order.
  for (let id = 10; id < 20; id++) await list(id);
  await ask(7, "tools/list");
  for (let id = 20; id < 25; id++) await list(id);
  expect(await unacked()).toBe(1);
});

test("MCP over stdio: a line that is no message ends nothing, and is not named as the end's reason", async () => {
  const { ask, child, log } = await stdioServer(stage.url);
  const ended = once(child, "close");
  child.stdin.write('no JSON\n{"neither": "is this"}\n');
  await ask(1, "tools/list");
  child.stdin.end();
  expect(await ended).toEqual([0, null]);
  expect(log()).not.toContain("MCP connection closed after trouble");
});
