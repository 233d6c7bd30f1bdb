/** The Agent Protocol, called by its real clients: the LangGraph SDK and the asynchronous sub-agents of deepagents. */
import { createServer } from "node:http";
import { Client } from "@langchain/langgraph-sdk";
import { createAsyncSubAgentMiddleware } from "deepagents";
import { beforeAll, describe, expect, test } from "vitest";
import type { Scenario } from "../../../src/offline/server.ts";
import { createCallbackSender } from "../../../src/service/agent-protocol/callback.ts";
import { AGENT_PROTOCOL_PATH, agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { newThreadId, openThread } from "../../../src/service/agent-protocol/thread.ts";
import { newUid } from "../../../src/shared/protocol/ids.ts";
import { deadlineMember } from "../../../src/shared/protocol/keys.ts";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { redisNowMs } from "../../../src/shared/redis/redis-time.ts";
import { startApi } from "../../helpers/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { openMonitor } from "../../helpers/monitor.ts";
import { refusal, started, testClient } from "../../helpers/parents.ts";
import { startProxy } from "../../helpers/proxy.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

let stage: Stage;
let apiUrl: string;

beforeAll(async () => {
  stage = await openStage();
  await stage.startWorker();
  apiUrl = (await startApi({ client: stage.client(), mounts: [agentProtocol()] })).url + AGENT_PROTOCOL_PATH;
});

/** A run that is cut off, and one that the model refuses. */
const ENDS: Scenario = [
  {
    match: { user: "cut" },
    turns: [{ content: [{ type: "text", text: "half of it" }], stop_reason: "max_tokens" }],
  },
  { match: { user: "refused" }, turns: [{ content: [], stop_reason: "refusal" }] },
  { match: { user: "unpaid" }, turns: [{ error: { status: 400, message: "no credit is left" } }] },
];

/** A LangGraph server that takes runs; unless told otherwise, after it was away once. */
async function startLangGraph({ isAway = true } = {}) {
  const runs: {
    path: string;
    key: unknown;
    body: { assistant_id: string; input: { messages: { content: string }[] } };
  }[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => {
      body += text;
    });
    request.on("end", () => {
      if (!isAway)
        runs.push({ path: request.url ?? "", key: request.headers["x-api-key"], body: JSON.parse(body) });
      response.writeHead(isAway ? 503 : 200).end();
      isAway = false;
    });
  });
  return { url: await listenUntilEnd(server), runs };
}

/** The uid of a thread's agent. */
const uidIn = (threadId: string, n: number) => threadId.slice(0, -2) + n.toString(16).padStart(2, "0");

const input = (content: string) => ({ messages: [{ role: "user", content }] });

test("a thread goes on after any report: a prompt that it would make too long has a part of it, or none", async () => {
  const quiet = await openStage();
  const thread = openThread(quiet.client(), "default", "planner-7", newThreadId());
  const worker = quiet.scriptedWorker();
  const begin = (text: string, assistantId: string) => thread.begin({ assistantId, text });
  await begin("first", "a");
  await worker.run("a", { summary: "cut", fullText: "語".repeat(90_000) });
  await begin("and now?", "b");
  const [second = ""] = await worker.run("b", { summary: "short" });
  expect(second).toMatch(/語\n\[the rest of this report is left out.*\n\nThe follow-up:\n\nand now\?$/s);
  expect(second).not.toContain("\ufffd");
  expect(Buffer.byteLength(second)).toBeGreaterThan(262_100);
  const longest = "x".repeat(262_144);
  await begin(longest, "c");
  expect(await worker.run("c")).toEqual([longest]);
});

describe("the LangGraph SDK", () => {
  test("begins a run in a thread, joins it and reads its state; then the reply is acked", async () => {
    const client = new Client({ apiUrl, apiKey: null, defaultHeaders: { "x-parent-id": "sdk" } });
    const { thread_id } = await client.threads.create();
    const run = await client.runs.create(thread_id, "researcher", { input: input("Say hello") });
    expect(run).toMatchObject({ thread_id, assistant_id: "researcher" });
    await client.runs.join(thread_id, run.run_id);
    expect((await client.runs.get(thread_id, run.run_id)).status).toBe("success");
    const { values } = await client.threads.getState<{ messages: { content: string }[] }>(thread_id);
    expect(values.messages).toMatchObject([{ type: "ai", content: expect.stringMatching(/\S/) }]);
    await until(async () => (await stage.parent("sdk").newReplies()).entries.length === 0);
    expect((await client.threads.getState(thread_id)).values).toEqual(values);
  });

  test("goes on in a thread at rest, waits, streams, and lists the runs", async () => {
    const client = new Client({ apiUrl, apiKey: null });
    const { thread_id } = await client.threads.create();
    const options = { input: input("Say hello") };
    const first = await client.runs.wait(thread_id, "researcher", options);
    expect(first).toMatchObject({ messages: [{ type: "ai" }] });
    const names: string[] = [];
    for await (const { event } of client.runs.stream(thread_id, "researcher", options)) names.push(event);
    const runs = await client.runs.list(thread_id);
    for await (const { event } of client.runs.joinStream(thread_id, runs[1]?.run_id ?? "")) names.push(event);
    expect(names).toEqual(["metadata", "values", "metadata", "values"]);
    expect(runs.map(({ status }) => status)).toEqual(["success", "success"]);
    expect((await client.threads.get(thread_id)).status).toBe("idle");
  });

  test("cancels a run, and of threads that are not its own it learns nothing", async () => {
    const quiet = await openStage();
    const door = await startApi({ client: quiet.client(), mounts: [agentProtocol()] });
    const at = { apiUrl: door.url + AGENT_PROTOCOL_PATH, apiKey: null, callerOptions: { maxRetries: 0 } };
    const client = new Client(at);
    const { thread_id } = await client.threads.create();
    const run = await client.runs.create(thread_id, "researcher", { input: input("Say hello") });
    expect(run.status).toBe("pending");
    await client.runs.cancel(thread_id, run.run_id);
    expect((await client.runs.get(thread_id, run.run_id)).status).toBe("interrupted");

    const { token } = await createApiKeys(quiet.redis, quiet.keys).create({
      tenant: "other",
      name: "k",
      scope: "spawn",
    });
    const foreign = new Client({ ...at, defaultHeaders: { authorization: `Bearer ${token}` } });
    await expect(foreign.runs.get(thread_id, run.run_id)).rejects.toThrow(/404/);
  });
});

test("a partial reply is a success with its text, a failed one an error that says why", async () => {
  const harsh = await openStage({ scenario: ENDS });
  await harsh.startWorker();
  const door = await startApi({
    client: harsh.client(),
    mounts: [agentProtocol()],
  });
  const client = new Client({ apiUrl: door.url + AGENT_PROTOCOL_PATH, apiKey: null });
  const end = async (prompt: string) => {
    const { thread_id } = await client.threads.create();
    const { run_id } = await client.runs.create(thread_id, "researcher", { input: input(prompt) });
    await client.runs.join(thread_id, run_id);
    return (await client.runs.get(thread_id, run_id)).status;
  };
  expect(await end("cut")).toBe("success");
  expect(await end("refused")).toBe("error");
  const why = "The run ended as error (model_error): no credit is left";
  const unpaid = { input: input("unpaid") };
  await expect(client.runs.wait(null, "researcher", unpaid)).rejects.toThrow(why);
  const told: unknown[] = [];
  for await (const each of client.runs.stream(null, "researcher", unpaid)) told.push(each);
  expect(told[1]).toMatchObject({
    event: "error",
    data: { error: "error", message: expect.stringContaining(why) },
  });
});

/** The tools of deepagents for asynchronous sub-agents at `url`, with the state that its agent would keep. */
function asyncTools(url: string) {
  const researcher = { name: "researcher", description: "Researches", graphId: "researcher", url };
  const { tools = [] } = createAsyncSubAgentMiddleware({ asyncSubAgents: [researcher] });
  const state: { asyncTasks: Record<string, { taskId: string; status: string }> } = { asyncTasks: {} };
  const use = async (name: string, args: Record<string, unknown>) => {
    const tool = tools.find((each) => each.name === name);
    if (!tool) throw new Error(`no tool ${name}`);
    // Each tool takes its own arguments; the test gives each its own.
    const runnable: { invoke(call: object, config: object): Promise<unknown> } = tool as never;
    const call = { type: "tool_call" as const, id: "call", name, args };
    const answer = await runnable.invoke(call, {
      state,
      toolCallId: "call",
      // What an agent that runs in a thread gives its tools.
      config: { configurable: { thread_id: "main" } },
    });
    const { update } = answer as { update?: typeof state & { messages: { content: string }[] } };
    if (!update) throw new Error(JSON.stringify(answer));
    Object.assign(state.asyncTasks, update.asyncTasks);
    return String(update.messages[0]?.content);
  };
  return { state, use };
}

test("a thread counts its runs with two digits: it has at most 256, and begins no other", async () => {
  const { redis, keys, ...stage } = await openStage();
  const threadId = newThreadId();
  const thread = openThread(stage.client(), "default", "long", threadId);
  const message = { assistantId: "researcher", text: "go" };
  const recordOf = (uid: string) => keys.agent({ tenant: "default", parentId: "long", uid }).record;
  await thread.begin(message);
  await thread.cancel();
  for (const uid of Array.from({ length: 254 }, (_, n) => uidIn(threadId, n + 1))) {
    await redis.copy(recordOf(threadId), recordOf(uid));
    await redis.hset(recordOf(uid), "uid", uid);
  }
  const { run_id } = await thread.begin(message);
  expect(run_id).toBe(`${uidIn(threadId, 255)}.1`);
  await thread.cancel();
  await expect(thread.begin(message)).rejects.toMatchObject(refusal("conflict", /begin a new thread/));
  expect(await stage.parent("long").list()).toEqual([]);
});

test("a look at one run of a thread reads the record of that run alone", async () => {
  const { redis, keys, ...stage } = await openStage({ redis: "own" });
  const threadId = newThreadId();
  const thread = openThread(stage.client(), "default", "long", threadId);
  const { run_id } = await thread.begin({ assistantId: "researcher", text: "go" });
  const recordOf = (uid: string) => keys.agent({ tenant: "default", parentId: "long", uid }).record;
  for (const uid of Array.from({ length: 99 }, (_, n) => uidIn(threadId, n + 1))) {
    await redis.copy(recordOf(threadId), recordOf(uid));
    await redis.hset(recordOf(uid), "uid", uid);
  }
  const reads = async () =>
    Number(/cmdstat_hgetall:calls=(\d+)/.exec(await stage.observer.info("commandstats"))?.[1]);
  const before = await reads();
  expect(await thread.run(`${uidIn(threadId, 50)}.1`)).toMatchObject({ status: "pending" });
  expect((await reads()) - before).toBe(1);
  expect(await thread.run(run_id)).toMatchObject({ run_id });
  const stranger = openThread(stage.client(), "default", "long", newThreadId());
  const { run_id: another } = await stranger.begin({ assistantId: "researcher", text: "go" });
  for (const other of ["", "nothing", `${threadId}.2`, another, `${uidIn(threadId, 200)}.1`])
    await expect(thread.run(other)).rejects.toMatchObject(refusal("not_found"));
});

test("a state acks each reply once, however often it is read, also where the transcript is kept", async () => {
  const stage = await openStage({ redis: "own" });
  const { replies } = stage.keys.parent({ tenant: "default", parentId: "long" });
  const deletions = async () =>
    Number(/cmdstat_xdel:calls=(\d+)/.exec(await stage.observer.info("commandstats"))?.[1] ?? 0);
  for (const [acks, transcript_ms] of [
    [3, undefined],
    [6, 60_000],
  ] as const) {
    await stage.parent("long").register({ ...(transcript_ms && { transcript_ms }) });
    const thread = openThread(stage.client(), "default", "long", newThreadId());
    for (let n = 0; n < 3; n += 1) {
      await thread.begin({ assistantId: "researcher", text: "go" });
      await thread.cancel();
    }
    for (let read = 0; read < 3; read += 1) {
      const { values, ack } = await thread.state();
      expect(values.messages).toHaveLength(3);
      await ack();
      expect(await deletions()).toBe(acks);
    }
    expect(await stage.observer.xlen(replies)).toBe(0);
  }
});

test("a run whose reply is no longer kept is a success or an error, as its agent ended", async () => {
  const { redis, keys, ...stage } = await openStage();
  const threadId = newThreadId();
  const thread = openThread(stage.client(), "default", "long", threadId);
  const worker = stage.scriptedWorker("long");
  await thread.begin({ assistantId: "well", text: "go" });
  await worker.run("well");
  await thread.begin({ assistantId: "ill", text: "go on" });
  await thread.cancel();
  for (const n of [0, 1]) {
    const { record } = keys.agent({ tenant: "default", parentId: "long", uid: uidIn(threadId, n) });
    await redis.hdel(record, "reply");
  }
  expect((await thread.runs()).map(({ status }) => status)).toEqual(["success", "error"]);
});

test("a later agent of a thread is no thread", async () => {
  const quiet = await openStage();
  const { ask } = await startApi({ client: quiet.client(), mounts: [agentProtocol()] });
  const threadId = newThreadId();
  const thread = openThread(quiet.client(), "default", "agent-protocol", threadId);
  for (const text of ["one", "two"]) {
    await thread.begin({ assistantId: "researcher", text });
    await thread.cancel();
  }
  const path = `${AGENT_PROTOCOL_PATH}/threads/${uidIn(threadId, 1)}`;
  const body = { assistant_id: "researcher", input: input("three") };
  for (const answer of [await ask("GET", path), await ask("POST", `${path}/runs`, { body })])
    expect(answer).toMatchObject({ status: 404 });
  expect(await thread.runs()).toHaveLength(2);
});

test("a thread whose first records have expired shows the others, and counts on behind the last one", async () => {
  const { redis, keys } = stage;
  const client = new Client({ apiUrl, apiKey: null });
  const { thread_id } = await client.threads.create();
  const told = async (text: string) => {
    await client.runs.wait(thread_id, "researcher", { input: input(`Say ${text}`) });
    return (await client.runs.list(thread_id)).map(({ run_id }) => run_id.slice(-4));
  };
  const expire = (n: number) => {
    const agent = { tenant: "default", parentId: "agent-protocol", uid: uidIn(thread_id, n) };
    return redis.del(keys.agent(agent).record);
  };
  await told("one");
  expect(await told("two")).toEqual(["00.1", "01.1"]);
  expect(await expire(0)).toBe(1);
  expect(await told("three")).toEqual(["01.1", "02.1"]);
  expect(await expire(1)).toBe(1);
  expect(await told("four")).toEqual(["02.1", "03.1"]);
  const { values } = await client.threads.getState<{ messages: unknown[] }>(thread_id);
  expect(values.messages).toHaveLength(2);
});

test("a thread all of whose records have expired begins anew, whatever its first message was", async () => {
  const { redis, keys, ...stage } = await openStage();
  const threadId = newThreadId();
  const thread = openThread(stage.client(), "default", "planner-7", threadId);
  for (const text of ["one", "two"]) {
    const run = await thread.begin({ assistantId: "researcher", text });
    expect(run).toMatchObject({ run_id: `${threadId}.1`, status: "pending" });
    await thread.cancel();
    const agent = { tenant: "default", parentId: "planner-7", uid: threadId };
    expect(await redis.del(keys.agent(agent).record)).toBe(1);
  }
});

test("messages that come to a thread at rest at once begin one run, which gets them all", async () => {
  const stage = await openStage();
  const threadId = newThreadId();
  const threads = [1, 2, 3].map(() => openThread(stage.client(), "default", "planner-7", threadId));
  const runs = await Promise.all(
    threads.map((thread, i) => thread.begin({ assistantId: "researcher", text: `message ${i}` })),
  );
  expect(new Set(runs.map(({ run_id }) => run_id))).toEqual(new Set([`${threadId}.1`]));
  const inbox = await stage.store.inbox({ tenant: "default", parentId: "planner-7", uid: threadId });
  expect(inbox.map(({ text }) => text).sort()).toEqual(["message 0", "message 1", "message 2"]);
});

test("a message that meets the end of a run begins the next one with what that run said last", async () => {
  const said = "The whole report.";
  const stage = await openStage({
    redis: "own",
    scenario: [{ turns: [{ content: [{ type: "text", text: said }], latencyMs: 300 }] }],
  });
  const { keys, store } = stage;
  const address = { tenant: "default", parentId: "planner-7" };
  const threadId = newThreadId();
  const first = openThread(stage.client(), "default", "planner-7", threadId);
  await first.begin({ assistantId: "researcher", text: "go" });
  // Its time stands still: no call is given up while its requests wait.
  const proxy = await startProxy(Number(new URL(stage.url).port));
  const redisUrl = `redis://127.0.0.1:${proxy.port}`;
  const client = await started(testClient({ redisUrl, prefix: stage.prefix, clock: handClock() }));
  proxy.setLatency(50);
  const { record } = keys.agent({ ...address, uid: threadId });
  let isRead = false;
  const monitor = await openMonitor(stage.url, (_at, [command = "", ...args], source) => {
    if (isRead || source === "lua" || !/^h/i.test(command) || !args.includes(record)) return;
    isRead = true;
    // The record is on its way; the message behind it waits until the run is over.
    proxy.pause();
  });
  closeAtEnd(() => monitor.stop());
  const begun = openThread(client, "default", "planner-7", threadId).begin({
    assistantId: "researcher",
    text: "more",
  });
  await until(() => isRead);
  await stage.startWorker();
  await until(async () => (await store.record({ ...address, uid: threadId }))?.status === "ended");
  proxy.resume();
  expect(await begun).toMatchObject({ run_id: `${uidIn(threadId, 1)}.1` });
  const next = await store.record({ ...address, uid: uidIn(threadId, 1) });
  const { entries } = await until(async () => {
    const found = await stage.parent().transcript(next?.agent_id ?? "");
    return found.entries.length > 0 && found;
  });
  expect(JSON.stringify(entries)).toContain(`Your earlier report in this conversation:\\n\\n${said}`);
});

test("cancelling a run that is over leaves the one that its thread has now alone", async () => {
  const quiet = await openStage();
  const { ask } = await startApi({ client: quiet.client(), mounts: [agentProtocol()] });
  const threadId = newThreadId();
  const thread = openThread(quiet.client(), "default", "agent-protocol", threadId);
  const old = await thread.begin({ assistantId: "researcher", text: "one" });
  await thread.cancel();
  const current = await thread.begin({ assistantId: "researcher", text: "two" });
  const cancel = (runId: string) =>
    ask("POST", `${AGENT_PROTOCOL_PATH}/threads/${threadId}/runs/${runId}/cancel`);
  expect((await cancel(old.run_id)).status).toBe(202);
  expect((await thread.runs()).map(({ status }) => status)).toEqual(["interrupted", "pending"]);
  expect((await cancel(current.run_id)).status).toBe(202);
  expect((await thread.runs()).map(({ status }) => status)).toEqual(["interrupted", "interrupted"]);
  expect((await cancel(`${threadId}.7`)).status).toBe(404);
});

test("the thread that began a run of deepagents is told its end, and the end of the follow-up, once its server is back", async () => {
  const { url, runs } = await startLangGraph();
  const told = await openStage({
    scenario: [
      {
        match: { user: "The follow-up" },
        turns: [{ content: [{ type: "text", text: "[sub-agent failed] bonjour" }] }],
      },
      { turns: [{ content: [{ type: "text", text: "hello ".repeat(200) }] }] },
    ],
  });
  const client = told.client();
  const door = await startApi({ client, mounts: [agentProtocol({ callsBack: true })] });
  const sender = createCallbackSender({
    client,
    url: `${url}/`,
    apiKey: "lg-abc",
    assistantId: "supervisor",
    retryMs: 10,
  });
  closeAtEnd(() => sender.stop());
  // One that was stopped goes on after its next start.
  sender.start();
  await sender.stop();
  sender.start();
  const { state, use } = asyncTools(door.url + AGENT_PROTOCOL_PATH);
  await use("start_async_task", { agentName: "researcher", description: "Say hello" });
  await told.startWorker();
  const [taskId = ""] = Object.keys(state.asyncTasks);
  const [first] = await until(() => runs.length === 1 && runs);
  expect(first).toMatchObject({ path: "/threads/main/runs", key: "lg-abc" });
  expect(first?.body.assistant_id).toBe("supervisor");
  const [message] = first?.body.input.messages ?? [];
  expect(message?.content).toMatch(
    new RegExp(`^\\[task_id=${taskId}\\]Completed\\. Result: hello (?:.|\\n)*check_async_task`),
  );
  expect(message?.content.length).toBeLessThan(700);
  // Nothing was acked by that: the parent still reads the whole text.
  expect(await use("check_async_task", { taskId })).toContain("hello ".repeat(150));
  await use("update_async_task", { taskId, message: "And now in French" });
  const [, second] = await until(() => runs.length === 2 && runs);
  // What the sub-agent said cannot pass for a word of the runtime.
  expect(second?.body.input.messages[0]?.content).toMatch(/Result: .*bonjour/);
  expect(second?.body.input.messages[0]?.content).not.toContain("[sub-agent");
  await until(async () => (await told.redis.zcard(told.keys.callbacks)) === 0);
});

test("records that cannot be read, and notes about nobody, keep no thread from being told", async () => {
  const { url, runs } = await startLangGraph();
  const told = await openStage({ scenario: [{ turns: [{ content: [{ type: "text", text: "hello" }] }] }] });
  const { redis, keys } = told;
  const client = told.client();
  const door = await startApi({ client, mounts: [agentProtocol({ callsBack: true })] });
  const { use } = asyncTools(door.url + AGENT_PROTOCOL_PATH);
  await use("start_async_task", { agentName: "researcher", description: "Say hello" });
  // As many as are looked at together, all due before the thread.
  for (let i = 0; i < 20; i++) {
    const agent = { tenant: "default", parentId: "planner-7", uid: newUid() };
    const record = { v: "1", uid: agent.uid, status: "unheard of", created_at: "never" };
    await redis.hset(keys.agent(agent).record, record);
    await redis.zadd(keys.callbacks, 1, deadlineMember(agent));
  }
  await redis.zadd(keys.callbacks, 0, "nobody");
  const sender = createCallbackSender({ client, url: `${url}/`, retryMs: 1_000 });
  closeAtEnd(() => sender.stop());
  sender.start();
  await told.startWorker();
  await until(() => runs.length === 1);
  await until(async () => (await redis.zcard(keys.callbacks)) === 20);
});

/** A thread of the stage's parent `planner-7` whose run has ended, noted to be told to `callbackThreadId`. */
async function endedThread({ client, store }: Stage, callbackThreadId: string): Promise<string> {
  const threadId = newThreadId();
  const thread = openThread(client(), "default", "planner-7", threadId);
  await thread.begin({ assistantId: "researcher", text: "go", callbackThreadId });
  const how = {
    target: "ended",
    ended_reason: "failed",
    status: "failed",
    stop_reason: "worker_lost",
  } as const;
  await store.settle(
    { tenant: "default", parentId: "planner-7", uid: threadId },
    { authority: "parent", ...how },
  );
  return threadId;
}

test("the thread that began a run that failed is told why", async () => {
  const { url, runs } = await startLangGraph({ isAway: false });
  const harsh = await openStage({ scenario: ENDS });
  await harsh.startWorker();
  const threadId = newThreadId();
  const thread = openThread(harsh.client(), "default", "planner-7", threadId);
  await thread.begin({ assistantId: "researcher", text: "unpaid", callbackThreadId: "main" });
  const sender = createCallbackSender({ client: harsh.client(), url });
  closeAtEnd(() => sender.stop());
  sender.start();
  await until(() => runs.length === 1);
  expect(runs[0]?.body.input.messages[0]?.content).toMatch(
    `[task_id=${threadId}]The agent failed: model_error. no credit is left`,
  );
});

test("an end is told at the first look, however many agents are at work, also where one cannot be read", async () => {
  const { url, runs } = await startLangGraph({ isAway: false });
  const busy = await openStage();
  const { redis, keys } = busy;
  const parent = { tenant: "default", parentId: "planner-7" };
  const threadId = await endedThread(busy, "main");
  for (let i = 0; i < 500; i++) {
    const agent = { ...parent, uid: newUid() };
    await redis.hset(keys.agent(agent).record, { v: "1", uid: agent.uid, status: "running" });
    await redis.zadd(keys.callbacks, 1, deadlineMember(agent));
  }
  const unreadable = { ...parent, uid: newUid() };
  await redis.set(keys.agent(unreadable).record, "no record");
  await redis.zadd(keys.callbacks, 1, deadlineMember(unreadable));
  const ended = deadlineMember({ ...parent, uid: threadId });
  expect(Number(await redis.zscore(keys.callbacks, ended))).toBeGreaterThan(1);
  // It stands still: there is no second look.
  const sender = createCallbackSender({ client: busy.client(), url, clock: handClock() });
  closeAtEnd(() => sender.stop());
  sender.start();
  await until(() => runs.length === 1);
  expect(runs[0]?.body.input.messages[0]?.content).toContain(`[task_id=${threadId}]The agent failed`);
  await until(async () => (await redis.zcard(keys.callbacks)) === 501);
});

test("an agent at work is asked after a tenth of its age, every second at most and every ten seconds at least", async () => {
  const busy = await openStage({ redis: "own" });
  const { redis, keys, url } = busy;
  const nowMs = await redisNowMs(redis);
  const asked = new Map<string, number>();
  const note = async (ageMs: number) => {
    const agent = { tenant: "default", parentId: "planner-7", uid: newUid() };
    const { record } = keys.agent(agent);
    await redis.hset(record, { v: "1", uid: agent.uid, status: "running", created_at: nowMs - ageMs });
    await redis.zadd(keys.callbacks, 1, deadlineMember(agent));
    asked.set(record, 0);
    return { record, agent };
  };
  const old = await Promise.all(Array.from({ length: 100 }, () => note(3_600_000)));
  const young = await note(-60_000);
  const middle = await note(80_000);
  let later = 0;
  const monitor = await openMonitor(url, (_at, [command = "", key = ""], source) => {
    const before = asked.get(key);
    if (source !== "lua" && before !== undefined) asked.set(key, before + 1);
    if (/^zadd$/i.test(command) && key === keys.callbacks) later += 1;
  });
  closeAtEnd(() => monitor.stop());
  const sender = createCallbackSender({ client: busy.client(), url: "http://127.0.0.1:1" });
  closeAtEnd(() => sender.stop());
  sender.start();
  // Three seconds behind the first look, or more where the machine is busy.
  const looks = await until(() => Number(asked.get(young.record)) >= 4 && asked.get(young.record));
  const counts = old.map(({ record }) => Number(asked.get(record)));
  const ofMiddle = Number(asked.get(middle.record));
  const tookMs = (await redisNowMs(redis)) - nowMs;
  expect(Math.min(ofMiddle, ...counts)).toBeGreaterThanOrEqual(1);
  expect(Math.max(...counts)).toBeLessThanOrEqual(1 + tookMs / 10_000);
  expect(ofMiddle).toBeLessThanOrEqual(1 + tookMs / 8_000);
  // One for a page of notes, whatever each waits for; the first look has two pages, as has one at which all are due again.
  expect(later).toBeLessThanOrEqual(looks + 1 + 2 * Math.floor(tookMs / 8_000));
  const dueAtMs = async ({ agent }: typeof young) =>
    Number(await redis.zscore(keys.callbacks, deadlineMember(agent)));
  for (const [n, each] of old.entries()) {
    expect(await dueAtMs(each)).toBeGreaterThanOrEqual(nowMs + 10_000 * (counts[n] ?? 0));
    // A tenth of its age would be six minutes.
    expect(await dueAtMs(each)).toBeLessThan(nowMs + tookMs + 120_000);
  }
  expect(await dueAtMs(middle)).toBeGreaterThanOrEqual(nowMs + 8_000 * ofMiddle);
});

test("a request that its server does not answer holds up no other end", async () => {
  const paths: string[] = [];
  const server = createServer(({ url = "" }, response) => {
    paths.push(url);
    if (!url.includes("silent")) response.writeHead(200).end();
  });
  const told = await openStage();
  const clock = handClock();
  const sender = createCallbackSender({ client: told.client(), url: await listenUntilEnd(server), clock });
  closeAtEnd(() => sender.stop());
  await endedThread(told, "silent");
  sender.start();
  await until(() => paths.length === 1);
  await endedThread(told, "other");
  await until(() => clock.pending === 2);
  clock.advance(1_000);
  await until(() => paths.length === 2);
  expect(paths).toEqual(["/threads/silent/runs", "/threads/other/runs"]);
  await until(async () => (await told.redis.zcard(told.keys.callbacks)) === 1);
  await sender.stop();
  // What was cut off is told at once by the next process.
  const { redis, keys } = told;
  expect(Number((await redis.zrange(keys.callbacks, 0, 0, "WITHSCORES"))[1])).toBeLessThanOrEqual(
    await redisNowMs(redis),
  );
});

test("asynchronous sub-agents of deepagents are started, checked, updated and cancelled by its own tools", async () => {
  const { state, use } = asyncTools(apiUrl);
  expect(await use("start_async_task", { agentName: "researcher", description: "Say hello" })).toMatch(
    /Launched/,
  );
  const [taskId = ""] = Object.keys(state.asyncTasks);
  await until(async () => /"success"/.test(await use("check_async_task", { taskId })));
  expect(JSON.parse(await use("check_async_task", { taskId }))).toMatchObject({
    status: "success",
    result: expect.any(String),
  });
  expect(await use("update_async_task", { taskId, message: "And now in French" })).toMatch(/Updated/);
  await until(async () => /"success"/.test(await use("check_async_task", { taskId })));
  expect(await use("list_async_tasks", {})).toContain(taskId);
  expect(await use("cancel_async_task", { taskId })).toMatch(/Cancelled/);
});
