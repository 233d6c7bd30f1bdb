/** Any MCP client is a parent: over HTTP and stdio, by both revisions of the protocol; a sub-agent is an MCP task. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { expect, test } from "vitest";
import { beginTask } from "../../../src/producer/detached-task.ts";
import { createApi } from "../../../src/service/api/api.ts";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { type Clock, systemClock } from "../../../src/shared/clock.ts";
import { TIMING } from "../../../src/shared/protocol/limits.ts";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { bundled } from "../../helpers/bundle.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { askMcp as ask } from "../../helpers/mcp.ts";
import { recordingModel } from "../../helpers/recording-model.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage, type StageOptions } from "../../stage/stage.ts";

/** Starts an API process' part with the MCP server; the answer is the address of parent `planner-7`. */
async function serve(stage: Stage, answerWithinMs?: number, clock: Clock = systemClock): Promise<URL> {
  const mount = mcpMount(answerWithinMs === undefined ? {} : { answerWithinMs });
  const api = createApi({ client: stage.client(), mounts: [mount], clock });
  closeAtEnd(() => api.stop());
  await api.start();
  return new URL(`${api.url}/mcp?parent=planner-7`);
}

/** A worker and an address, with the offline model's answers. */
async function open(options: StageOptions = {}, answerWithinMs?: number) {
  const stage = await openStage(options);
  await stage.startWorker();
  return { stage, url: await serve(stage, answerWithinMs) };
}

const begin = async (url: URL, prompt: string) => {
  const { result } = await ask(url, "tools/call", { name: "task", arguments: { prompt } });
  expect(result).toMatchObject({ resultType: "task", status: "working" });
  return String(result?.taskId);
};

const taskWhere = (url: URL, taskId: string, status: string) =>
  until(
    async () => {
      const { result } = await ask(url, "tasks/get", { taskId });
      return result?.status === status && result;
    },
    { what: `task ${taskId} ${status}` },
  );

test.for([
  ["the older revision", {}],
  ["the newest revision", { versionNegotiation: { mode: "auto" } }],
] as const)(
  "an ordinary client of %s lists the tools and gets a reply from a plain call",
  async ([, options]) => {
    const { stage, url } = await open();
    const client = new Client({ name: "test", version: "1" }, options);
    closeAtEnd(() => client.close());
    await client.connect(new StreamableHTTPClientTransport(url));
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(
      expect.arrayContaining(["task", "agent", "spawn_sub_agent", "destroy_sub_agent"]),
    );
    const result = await client.callTool({ name: "task", arguments: { prompt: "say hello" } });
    expect(result).toMatchObject({ structuredContent: { agent_id: "task", status: "succeeded" } });
    // It was acked once the answer had left.
    await until(async () => (await stage.parent().newReplies()).entries.length === 0);
  },
);

test("an ordinary client over stdio does the same, and nothing but the protocol is printed", async () => {
  const stage = await openStage();
  await stage.startWorker();
  const client = new Client({ name: "test", version: "1" });
  closeAtEnd(() => client.close());
  const own = { REDIS_URL: stage.url, SUBAGENT_PREFIX: stage.prefix, SUBAGENT_MODEL: "offline-1" };
  const env = { PATH: process.env.PATH ?? "", ...own };
  const args = [await bundled("src/cli/main.ts"), "mcp", "--parent", "planner-7"];
  await client.connect(new StdioClientTransport({ command: process.execPath, args, env }));
  const result = await client.callTool({ name: "agent", arguments: { prompt: "say hello" } });
  expect(result).toMatchObject({ structuredContent: { agent_id: "agent", status: "succeeded" } });
});

test("over stdio a list of messages, and JSON that is none, are answered as over HTTP, and the connection goes on", async () => {
  const stage = await openStage();
  const own = { REDIS_URL: stage.url, SUBAGENT_PREFIX: stage.prefix, SUBAGENT_MODEL: "offline-1" };
  const env = { PATH: process.env.PATH ?? "", ...own };
  const server = spawn(process.execPath, [await bundled("src/cli/main.ts"), "mcp"], { env });
  closeAtEnd(() => void server.kill());
  const lines = createInterface({ input: server.stdout })[Symbol.asyncIterator]();
  const list = { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} };
  for (const [sent, answer] of [
    [
      [list, list],
      { id: null, error: { code: -32_600, message: expect.stringContaining("one JSON-RPC message a line") } },
    ],
    [{ name: "task" }, { id: null, error: { code: -32_600 } }],
    [list, { id: 1, result: { tools: expect.any(Array) } }],
  ]) {
    server.stdin.write(`${JSON.stringify(sent)}\n`);
    expect(JSON.parse((await lines.next()).value)).toMatchObject({ jsonrpc: "2.0", ...answer });
  }
});

test("a task is answered by any process, from the moment it was handed out to long after its end", async () => {
  const { stage, url } = await open();
  const other = await serve(stage);
  const taskId = await begin(url, "say hello");
  const task = await taskWhere(other, taskId, "completed");
  expect(task).toMatchObject({
    resultType: "complete",
    result: { resultType: "complete", structuredContent: { agent_id: "task", status: "succeeded" } },
  });
  // The reply was taken out of the channel, and the task still has it.
  const { replies } = stage.keys.parent({ tenant: "default", parentId: "planner-7" });
  await until(async () => (await stage.redis.xlen(replies)) === 0);
  expect(await ask(url, "tasks/get", { taskId })).toMatchObject({ result: { result: task.result } });
});

test("a question is input_required, tasks/update answers it, and it leaves the channel with the task's result", async () => {
  const { stage, url } = await open({
    scenario: {
      turns: [
        { content: [{ type: "tool_use", name: "ask_parent", input: { question: "Which colour?" } }] },
        { content: [{ type: "text", text: "done" }] },
      ],
    },
  });
  const parent = stage.parent();
  const { result } = await ask(url, "tools/call", {
    name: "agent",
    arguments: { prompt: "paint", tool_allowlist: ["ask_parent"] },
  });
  const taskId = String(result?.taskId);
  const asked = await taskWhere(url, taskId, "input_required");
  const [key = ""] = Object.keys(asked.inputRequests ?? {});
  expect(asked.inputRequests).toMatchObject({
    [key]: { method: "elicitation/create", params: { message: "Which colour?" } },
  });
  const blue = { action: "accept", content: { answer: "blue" } };
  const update = (inputResponses: unknown) => ask(url, "tasks/update", { taskId, inputResponses });
  for (const malformed of [{ action: "shrug" }, { content: { answer: 5 } }])
    expect(await update({ [key]: malformed })).toMatchObject({ error: { code: -32_602 } });
  expect(await update({ another: blue })).toMatchObject({ result: { resultType: "complete" } });
  expect((await ask(url, "tasks/get", { taskId })).result).toMatchObject({ status: "input_required" });
  expect(await update({ [key]: blue })).toMatchObject({ result: { resultType: "complete" } });
  await taskWhere(url, taskId, "completed");
  expect(await parent.list()).toEqual([]);
  const { replies } = stage.keys.parent({ tenant: "default", parentId: "planner-7" });
  await until(async () => (await stage.redis.xlen(replies)) === 0);
});

test("a task says how long it is kept: by the installation's times, and once it has ended from its end on", async () => {
  const [keptAfterAckMs, maxAgeMs] = [3_600_000, 7_200_000];
  const { url } = await open({ timing: { ...TIMING, keptAfterAckMs, maxAgeMs } });
  const { result } = await ask(url, "tools/call", { name: "task", arguments: { prompt: "say hello" } });
  expect(result).toMatchObject({ ttlMs: maxAgeMs + keptAfterAckMs });
  const ended = await taskWhere(url, String(result?.taskId), "completed");
  const tookMs = Date.parse(String(ended.lastUpdatedAt)) - Date.parse(String(ended.createdAt));
  expect(ended.ttlMs).toBe(tookMs + keptAfterAckMs);
});

test.for([
  ["accepted with a blank answer", { action: "accept", content: { answer: " " } }, "gave no answer"],
  ["cancelled", { action: "cancel" }, "gave no answer"],
  [
    "declined, whatever stands beside that,",
    { action: "decline", content: { answer: "red" } },
    "declined to answer",
  ],
] as const)("a question that is %s gets its default answer", async ([, response, why]) => {
  const question = { question: "Which colour?", default_answer: "green" };
  const asks = { content: [{ type: "tool_use" as const, name: "ask_parent", input: question }] };
  const done = { content: [{ type: "text" as const, text: "done" }] };
  const stage = await openStage({ scenario: { turns: [asks, done] } });
  const { model, heads } = recordingModel(stage.offline.url);
  await stage.startWorker({ model });
  const url = await serve(stage);
  const input = { prompt: "paint", tool_allowlist: ["ask_parent"] };
  const { result } = await ask(url, "tools/call", { name: "agent", arguments: input });
  const taskId = String(result?.taskId);
  const { inputRequests } = await taskWhere(url, taskId, "input_required");
  const [key = ""] = Object.keys(inputRequests ?? {});
  const inputResponses = { [key]: response };
  expect(await ask(url, "tasks/update", { taskId, inputResponses })).toMatchObject({
    result: { resultType: "complete" },
  });
  await taskWhere(url, taskId, "completed");
  expect(heads.at(-1)?.messages).toContain(`The user ${why}, so your default holds: green`);
});

test("the result of a run that failed is marked as an error, that of a task as that of a plain call", async () => {
  const { url } = await open({ scenario: { turns: [{ content: [], stop_reason: "refusal" }] } });
  const taskId = await begin(url, "refused");
  expect((await taskWhere(url, taskId, "completed")).result).toMatchObject({
    isError: true,
    structuredContent: { status: "failed" },
  });
  const call = { name: "task", arguments: { prompt: "refused" } };
  const { result } = await ask(url, "tools/call", call, { followsTasks: false });
  expect(result).toMatchObject({ isError: true, structuredContent: { status: "failed" } });
});

test("only tasks/cancel destroys: a request that is closed leaves its agent at work", async () => {
  const { stage, url } = await open({ latencyMs: 800 });
  const gone = new AbortController();
  const call = { name: "task", arguments: { prompt: "say hello" } };
  const closed = ask(url, "tools/call", call, { followsTasks: false, signal: gone.signal }).catch(
    () => "closed",
  );
  await until(async () => (await stage.parent().list()).length === 1);
  gone.abort();
  expect(await closed).toBe("closed");
  expect(await stage.parent().waitAny(["task"], { timeout_ms: 15_000 })).toMatchObject({
    status: "succeeded",
  });

  const taskId = await begin(url, "say hello");
  expect(await ask(url, "tasks/cancel", { taskId })).toMatchObject({ result: { resultType: "complete" } });
  const { createdAt, lastUpdatedAt } = await taskWhere(url, taskId, "cancelled");
  expect(Date.parse(String(lastUpdatedAt))).toBeGreaterThan(Date.parse(String(createdAt)));
  expect(await ask(url, "tasks/cancel", { taskId })).toMatchObject({ result: { resultType: "complete" } });
});

test("a plain call that takes too long is answered with what finds the reply later", async () => {
  const { stage, url } = await open({ latencyMs: 1_000 }, 50);
  const { result } = await ask(
    url,
    "tools/call",
    { name: "task", arguments: { prompt: "say hello" } },
    { followsTasks: false },
  );
  expect(result).toMatchObject({ structuredContent: { agent_id: "task", status: "working" } });
  await until(async () => (await stage.parent().get("task")).status === "ended");
  const check = { name: "check_sub_agent", arguments: { agent_id: "task" } };
  const later = await ask(url, "tools/call", check, { followsTasks: false });
  expect(JSON.stringify(later.result?.content)).toContain("sub_agent_reply");
});

test("a plain call whose key is revoked while it waits is refused, and its reply stays for another reader", async () => {
  const stage = await openStage();
  const clock = handClock();
  const apiKeys = createApiKeys(stage.redis, stage.keys);
  const { token, key_id } = await apiKeys.create({ tenant: "default", name: "k", scope: "spawn" });
  const url = await serve(stage, undefined, clock);
  const call = { name: "task", arguments: { prompt: "say hello" } };
  const asked = ask(url, "tools/call", call, { followsTasks: false, token });
  const worker = stage.scriptedWorker("planner-7");
  await worker.uidOf("task");
  await apiKeys.revoke(key_id);
  clock.advance(15_000);
  await worker.run("task");
  expect((await asked).result).toMatchObject({
    isError: true,
    content: [{ text: expect.stringMatching(/key/) }],
  });
  expect((await stage.parent().newReplies()).entries).toMatchObject([{ agent_id: "task" }]);
});

test("tasks of others, unknown ones, and clients that cannot follow tasks are refused by the protocol's codes", async () => {
  const { url } = await open();
  const taskId = await begin(url, "say hello");
  const foreign = new URL(url);
  foreign.searchParams.set("parent", "somebody-else");
  for (const method of ["tasks/get", "tasks/cancel"]) {
    expect(await ask(foreign, method, { taskId })).toMatchObject({ error: { code: -32_602 } });
    for (const unknown of ["nothing", taskId.replace(/\.1$/, ".7")])
      expect(await ask(url, method, { taskId: unknown })).toMatchObject({ error: { code: -32_602 } });
    expect(await ask(url, method, { taskId }, { followsTasks: false })).toMatchObject({
      error: { code: -32_021 },
    });
  }
});

test("what a refusal repeats of a call is bounded, however much of it is wrong", async () => {
  const { url } = await open();
  const unknown = Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`k${i}`, 1]));
  for (const wrong of [unknown, { ["f".repeat(500_000)]: 1 }, { tools: Array(5_000).fill(1) }]) {
    const answer = await ask(url, "tools/call", { name: "task", arguments: { prompt: "x", ...wrong } });
    expect(JSON.stringify(answer)).toMatch(/refused/);
    expect(JSON.stringify(answer).length).toBeLessThan(10_000);
  }
});

test("a refusal of the library is a result that the model reads", async () => {
  const { url } = await open();
  const answers = await Promise.all([
    ask(url, "tools/call", { name: "task", arguments: { prompt: " " } }),
    ask(url, "tools/call", { name: "destroy_sub_agent", arguments: { agent_id: "nobody" } }),
    ask(url, "tools/call", { name: "agent", arguments: { prompt: "x", max_turns: 99 } }),
  ]);
  for (const { result } of answers) expect(result).toMatchObject({ isError: true });
});

test("a parent in the address that is a sub-agent is refused, and the process goes on", async () => {
  const stage = await openStage();
  const url = await serve(stage);
  const { address } = await beginTask(stage.parent(), { prompt: "go" });
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" });
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  const refused = await fetch(`${url.origin}/mcp?parent=${address.uid.toUpperCase()}`, {
    method: "POST",
    headers,
    body,
  });
  expect(refused.status).toBe(403);
  expect(await refused.json()).toMatchObject({
    error: { message: expect.stringMatching(/sub-agent cannot be a parent/) },
  });
});
