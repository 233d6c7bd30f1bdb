/** The API over a real installation: every call of a parent, over HTTP, through the same channel as every other door. */
import { beforeAll, describe, expect, test } from "vitest";
import { agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { readEvents, startApi, type TestApi } from "../../helpers/api.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage, type StageOptions } from "../../stage/stage.ts";

let stage: Stage;
let api: TestApi;
let parents = 0;

beforeAll(async () => {
  stage = await openStage();
  await stage.startWorker();
  api = await startApi({ client: stage.client({ workspaceRoot: stage.workspaceRoot }) });
});

/** A parent that no other test uses, and its path. */
function newParent(): { parentId: string; path: string } {
  parents += 1;
  const parentId = `http-${parents}`;
  return { parentId, path: `/v1/parents/${parentId}` };
}

test("no answer is for a cache: a cache in between would show one program what another may see", async () => {
  const { path } = newParent();
  const webhook = { body: { url: "https://example.com/hook" } };
  const answers = [
    await api.ask("PUT", `${path}/webhook`, webhook),
    await api.ask("GET", `${path}/replies`),
    await api.ask("GET", `${path}/agents/nobody`),
  ];
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 404]);
  for (const { headers } of answers) expect(headers.get("cache-control")).toBe("no-store");
});

test("metrics count a request while it is open and then by its method, one of five or other", async () => {
  await api.ask("PATCH", newParent().path);
  // Of the requests of this file only the one that asks is open at last.
  const body = await until(async () => {
    const { body } = await api.ask("GET", "/metrics");
    return /^subagent_api_open_requests 1$/m.test(body) && /method="other",status="4xx"/.test(body) && body;
  });
  expect(body).toMatch(/^subagent_api_requests_total\{method="other",status="4xx"\} 1$/m);
  expect(body).not.toContain("PATCH");
});

test("a stopping API answers what waits: the agent's address, no entries, the end of a stream", async () => {
  const quiet = await openStage();
  const stopping = await startApi({ client: quiet.client(), mounts: [mcpMount()] });
  const task = stopping.ask("POST", "/v1/parents/p/tasks?wait=300", { body: { prompt: "Say hello" } });
  const page = stopping.ask("GET", "/v1/parents/p/replies?wait=300");
  const streams = ["replies", "events"].map((name) =>
    stopping.ask("GET", `/v1/parents/p/${name}`, { headers: { accept: "text/event-stream" } }),
  );
  const call = stopping.ask("POST", "/mcp?parent=m", {
    body: {
      jsonrpc: "2.0",
      id: 1,
      method: "tools/call",
      params: { name: "task", arguments: { prompt: "Hi" } },
    },
    headers: { accept: "application/json, text/event-stream" },
  });
  const parents = ["p", "m"].map((parentId) => quiet.parent(parentId));
  await until(async () =>
    (await Promise.all(parents.map((each) => each.list()))).every((list) => list.length === 1),
  );
  // The five and itself.
  await until(async () => /open_requests 6$/m.test((await stopping.ask("GET", "/metrics")).body));
  const began = performance.now();
  await stopping.stop();
  expect(performance.now() - began).toBeLessThan(4_000);
  expect(await task).toMatchObject({ status: 202, body: { agent_id: "task" } });
  expect(await page).toMatchObject({ status: 200, body: { replies: [] } });
  for (const stream of await Promise.all(streams)) expect(stream).toMatchObject({ status: 200 });
  expect(JSON.stringify((await call).body)).toContain("goes on");
});

test("a stopping API tells what waits over the Agent Protocol that its run goes on", async () => {
  const quiet = await openStage();
  const stopping = await startApi({ client: quiet.client(), mounts: [agentProtocol()] });
  const body = { assistant_id: "researcher", input: { messages: [{ role: "user", content: "Say hello" }] } };
  const [wait, stream] = ["wait", "stream"].map((how) =>
    stopping.ask("POST", `/agent-protocol/runs/${how}`, { body, headers: { "x-parent-id": "p" } }),
  );
  await until(async () => (await quiet.parent("p").list()).length === 2);
  // The two and itself.
  await until(async () => /open_requests 3$/m.test((await stopping.ask("GET", "/metrics")).body));
  const began = performance.now();
  await stopping.stop();
  expect(performance.now() - began).toBeLessThan(4_000);
  expect(await wait).toMatchObject({ status: 503, body: { code: "timed_out", retryable: true } });
  expect(await stream).toMatchObject({ status: 200, body: expect.stringContaining("the run goes on") });
  expect(await quiet.parent("p").newReplies()).toMatchObject({ entries: [] });
  expect(await quiet.parent("p").list()).toHaveLength(2);
});

test("an agent belongs to the trace of the request that spawned it: of the field, else of the header", async () => {
  const { parentId, path } = newParent();
  const open = await startApi({ client: stage.client(), mounts: [agentProtocol()] });
  const [ofField, ofHeader] = ["a", "b"].map((digit) => `00-${digit.repeat(32)}-${digit.repeat(16)}-01`);
  const headers = { traceparent: ofHeader ?? "" };
  const spanOf = async (agentId: string) => {
    const parent = { tenant: "default", parentId };
    const uid = (await stage.store.uidOf(parent, agentId)) ?? "";
    return (await stage.store.record({ ...parent, uid }))?.spec.traceparent;
  };
  const ask = (name: string, more: object, sent: Record<string, string>) =>
    open.ask("POST", `${path}/agents`, { body: { name, ...more }, headers: sent });
  await ask("spawned", {}, headers);
  await ask("named", { traceparent: ofField }, headers);
  expect((await ask("odd", {}, { traceparent: "00-1-2-3" })).status, "what cannot be read is no header").toBe(
    201,
  );
  const task = (name: string, more: object) =>
    open.ask("POST", `${path}/tasks`, { body: { name, prompt: "Say hello", ...more }, headers });
  await task("tasked", {});
  await task("tasked_by_name", { traceparent: ofField });
  const input = { messages: [{ role: "user", content: "Say hello" }] };
  const { thread_id } = (await open.ask("POST", "/agent-protocol/threads", { body: {} })).body;
  await open.ask("POST", `/agent-protocol/threads/${thread_id}/runs`, {
    body: { assistant_id: "threaded", input },
    headers: { ...headers, "x-parent-id": parentId },
  });
  expect(
    await Promise.all(["spawned", "named", "odd", "tasked", "tasked_by_name", "threaded"].map(spanOf)),
  ).toEqual([ofHeader, ofField, undefined, ofHeader, ofField, ofHeader]);
});

describe("a task", () => {
  test("is answered with its reply within the wait, and the reply is acked", async () => {
    const { parentId, path } = newParent();
    const { status, body } = await api.ask("POST", `${path}/tasks?wait=30`, {
      body: { prompt: "Say hello" },
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({ kind: "reply", status: "succeeded", parent_id: parentId, agent_id: "task" });
    await until(async () => (await unacked(path)).length === 0);
  });

  test("without a wait is answered with the agent's address, and its reply comes into the channel", async () => {
    const { path } = newParent();
    const begun = await api.ask("POST", `${path}/tasks`, { body: { prompt: "Say hello" } });
    expect(begun.status).toBe(202);
    expect(begun.headers.get("location")).toBe(`${path}/agents/task`);
    const { body } = await api.ask("GET", `${path}/replies?wait=30`);
    expect(body.replies).toMatchObject([{ kind: "reply", agent_id: "task" }]);
  });

  test("names the agent's address as the routes spell it, however its own was spelled", async () => {
    const { parentId, path } = newParent();
    const { headers } = await api.ask("POST", `/V1/Parents/${parentId}/Tasks/`, {
      body: { prompt: "Say hello" },
    });
    expect(headers.get("location")).toBe(`${path}/agents/task`);
    const spawned = await api.ask("POST", `${path}/agents/`, { body: { name: "slash" } });
    expect(spawned.headers.get("location")).toBe(`${path}/agents/slash`);
  });

  test("has one key, in its header, in its body, or the same one in both", async () => {
    const { path } = newParent();
    const ask = (inHeader: string, request_key: string) =>
      api.ask("POST", `${path}/tasks`, {
        body: { prompt: "Say hello", request_key },
        headers: { "idempotency-key": inHeader },
      });
    expect((await ask("once", "once")).status).toBe(202);
    const refused = await ask("once", "another");
    expect(refused).toMatchObject({ status: 400, body: { code: "invalid_input" } });
    expect(refused.body.detail).toContain("differ");
  });

  test("with the same Idempotency-Key is one task, and its reply comes again after the ack", async () => {
    const { path } = newParent();
    const headers = { "idempotency-key": '"once"' };
    const first = await api.ask("POST", `${path}/tasks?wait=30`, { body: { prompt: "Say hello" }, headers });
    await until(async () => (await unacked(path)).length === 0);
    const again = await api.ask("POST", `${path}/tasks?wait=30`, { body: { prompt: "Say hello" }, headers });
    expect([first.status, again.status]).toEqual([200, 200]);
    expect(again.body.reply_id).toBe(first.body.reply_id);
    const other = await api.ask("POST", `${path}/tasks`, { body: { prompt: "Another" }, headers });
    expect(other).toMatchObject({ status: 409, body: { code: "conflict" } });
  });

  test("whose client goes away while it waits keeps its reply in the channel", async () => {
    const slow = await openStage();
    const door = await startApi({ client: slow.client() });
    const path = "/v1/parents/patient";
    const gone = new AbortController();
    const asked = door.ask("POST", `${path}/tasks?wait=60`, {
      body: { prompt: "Hello" },
      signal: gone.signal,
    });
    await until(async () => (await door.ask("GET", `${path}/agents`)).body.sub_agents.length === 1);
    gone.abort();
    await expect(asked).rejects.toThrow();
    await slow.startWorker();
    const { body } = await door.ask("GET", `${path}/replies?wait=30`);
    expect(body.replies).toMatchObject([{ kind: "reply", status: "succeeded" }]);
  });
});

describe("an agent", () => {
  test("is spawned, listed, sent to, finished and destroyed like any other", async () => {
    const { parentId, path } = newParent();
    const spawned = await api.ask("POST", `${path}/agents`, {
      body: { name: "Data Collector", keep_alive: true },
    });
    expect(spawned).toMatchObject({ status: 201, body: { agent_id: "data_collector", status: "created" } });
    expect(spawned.headers.get("location")).toBe(`${path}/agents/data_collector`);
    const parent = stage.parent(parentId);
    expect((await parent.list()).map(({ agent_id }) => agent_id)).toEqual(["data_collector"]);

    const sent = await api.ask("POST", `${path}/agents/data_collector/messages`, {
      body: { text: "Say hello" },
    });
    expect(sent).toMatchObject({ status: 202, body: { status: "queued", run: 1 } });
    const reply = await parent.waitAny(["data_collector"], { timeout_ms: 30_000 });
    const text = await api.ask("GET", `${path}/agents/data_collector/reply`);
    expect(text).toMatchObject({ status: 200, body: { run: 1, text: reply.summary } });

    expect((await api.ask("POST", `${path}/agents/data_collector/finish`, {})).body.status).toBe("idle");
    const destroyed = await api.ask("DELETE", `${path}/agents/data_collector`);
    expect(destroyed).toMatchObject({ status: 200, body: { status: "destroyed" } });
    expect((await api.ask("GET", `${path}/agents/data_collector`)).body.status).toBe("ended");
    expect((await api.ask("GET", `${path}/agents`)).body).toEqual({ sub_agents: [] });
  });

  test("that has said nothing yet has no reply to read, and is told from one that had nothing to say", async () => {
    const idle = await openStage();
    const door = await startApi({ client: idle.client() });
    const agent = "/v1/parents/early/agents/helper";
    const read = () => door.ask("GET", `${agent}/reply`);
    await door.ask("POST", "/v1/parents/early/agents", { body: { name: "helper" } });
    expect(await read()).toMatchObject({ status: 404, body: { code: "not_found", details: { run: 0 } } });
    expect((await read()).body.detail).toContain("helper has not run");
    await door.ask("POST", `${agent}/messages`, { body: { text: "Say hello" } });
    expect(await read()).toMatchObject({ status: 404, body: { code: "not_found", details: { run: 1 } } });
    expect((await read()).body.detail).toContain("nothing in run 1 yet");
    await door.ask("DELETE", agent);
    expect(await read()).toMatchObject({ status: 200, body: { run: 1, text: "(no summary)" } });
  });

  test("of another parent looks as if it did not exist", async () => {
    const [mine, theirs] = [newParent(), newParent()];
    await api.ask("POST", `${theirs.path}/agents`, { body: { name: "secret" } });
    for (const [method, path] of [
      ["GET", ""],
      ["DELETE", ""],
      ["GET", "/reply"],
      ["GET", "/files"],
    ] as const) {
      const { status, body } = await api.ask(method, `${mine.path}/agents/secret${path}`);
      expect({ method, path, status, code: body.code }).toEqual({
        method,
        path,
        status: 404,
        code: "unknown_agent",
      });
    }
  });
});

describe("the channel", () => {
  test("is acked over HTTP, once, for every reader", async () => {
    const { parentId, path } = newParent();
    await api.ask("POST", `${path}/tasks`, { body: { prompt: "Say hello" } });
    const { replies, cursor } = (await api.ask("GET", `${path}/replies?wait=30`)).body;
    const [{ reply_id }] = replies;
    // The longest id that a question can have.
    const unheardOf = `sa-${"0".repeat(24)}.100/${"x".repeat(256)}/permission`;
    const ack = () => api.ask("POST", `${path}/replies/ack`, { body: { reply_ids: [reply_id, unheardOf] } });
    expect((await ack()).body).toEqual({ acked: [reply_id], already: [unheardOf] });
    expect((await ack()).body).toEqual({ acked: [], already: [reply_id, unheardOf] });
    expect((await stage.parent(parentId).newReplies()).entries).toEqual([]);
    expect((await api.ask("GET", `${path}/replies?after=${cursor}`)).body).toEqual({ replies: [], cursor });
  });

  test("is followed as a stream, and a client that comes back misses and repeats nothing", async () => {
    const { path } = newParent();
    const begin = (name: string) => api.ask("POST", `${path}/tasks`, { body: { name, prompt: "Say hello" } });
    await begin("first");
    const seen: { id: string | undefined; name: string }[] = [];
    const read = async (names: number, lastEventId?: string) => {
      const headers: Record<string, string> =
        lastEventId === undefined ? {} : { "last-event-id": lastEventId };
      for await (const { id, event, data } of readEvents(`${api.url}${path}/replies`, { headers })) {
        expect(event).toBe("reply");
        seen.push({ id, name: data.name });
        if (seen.length === names) return;
      }
    };
    await read(1);
    await begin("second");
    await read(2, seen[0]?.id);
    expect(seen.map(({ name }) => name)).toEqual(["first", "second"]);
  });
});

test("progress is streamed under AG-UI's names, from a number on", async () => {
  const { path } = newParent();
  await api.ask("POST", `${path}/tasks?wait=30`, { body: { prompt: "Say hello" } });
  const names: string[] = [];
  for await (const { event, data } of readEvents(`${api.url}${path}/events?after=0`)) {
    names.push(event);
    expect(data).toMatchObject({ type: event, threadId: "task", runId: "task.1", rawEvent: { run: 1 } });
    if (event === "RUN_FINISHED") break;
  }
  expect(names).toEqual(["RUN_STARTED", "STEP_STARTED", "STEP_FINISHED", "RUN_FINISHED"]);
});

/** The events of one run over HTTP, to its end, without what every one of them has. */
async function agUiEvents(scenario: StageOptions["scenario"]): Promise<Record<string, unknown>[]> {
  const scripted = await openStage({ scenario });
  await scripted.startWorker();
  const door = await startApi({ client: scripted.client() });
  const path = "/v1/parents/agui";
  await door.ask("POST", `${path}/tasks?wait=30`, { body: { prompt: "Look" } });
  const events: Record<string, unknown>[] = [];
  for await (const { data } of readEvents(`${door.url}${path}/events?after=0`)) {
    const { threadId, runId, timestamp, rawEvent, ...own } = data as Record<string, unknown>;
    expect([threadId, runId]).toEqual(["task", "task.1"]);
    expect(timestamp).toBeGreaterThan(Date.now() - 60_000);
    expect(rawEvent).toMatchObject({ agent_id: "task" });
    events.push(own);
    if (/^RUN_(FINISHED|ERROR)$/.test(String(own.type))) return events;
  }
  throw new Error("the stream was closed");
}

const LOOK = { content: [{ type: "tool_use" as const, id: "t1", name: "glob", input: { pattern: "*" } }] };

test("AG-UI's fields of a tool call and of a run's end name the tool, the step and nothing else", async () => {
  expect(await agUiEvents({ turns: [LOOK, { content: [{ type: "text", text: "done" }] }] })).toEqual([
    { type: "RUN_STARTED" },
    { type: "STEP_STARTED", stepName: "turn 1" },
    { type: "STEP_FINISHED", stepName: "turn 1" },
    { type: "TOOL_CALL_START", toolCallId: "t1", toolCallName: "glob" },
    { type: "TOOL_CALL_END", toolCallId: "t1" },
    { type: "STEP_STARTED", stepName: "turn 2" },
    { type: "STEP_FINISHED", stepName: "turn 2" },
    { type: "RUN_FINISHED" },
  ]);
});

test("a failed run ends with AG-UI's error, which says why", async () => {
  const events = await agUiEvents({ turns: [{ error: { status: 400 } }] });
  expect(events.at(-1)).toEqual({ type: "RUN_ERROR", message: "model_error", code: "model_error" });
});

test("AG-UI gets an event of ours as the value of a custom one, and a destroyed run as cancelled", async () => {
  const ask = { type: "tool_use" as const, name: "ask_parent", input: { question: "Which?" } };
  const asking = await openStage({ scenario: { turns: [{ content: [ask] }] } });
  await asking.startWorker();
  const door = await startApi({ client: asking.client() });
  const path = "/v1/parents/agui";
  await door.ask("POST", `${path}/tasks`, { body: { prompt: "Ask" } });
  const seen: unknown[] = [];
  for await (const { event, data } of readEvents(`${door.url}${path}/events?after=0`)) {
    const { name, value, outcome } = data as Record<string, unknown>;
    if (event === "CUSTOM") seen.push({ name, value });
    if (name === "waiting") await door.ask("DELETE", `${path}/agents/task`);
    if (event !== "RUN_FINISHED") continue;
    seen.push({ outcome });
    break;
  }
  expect(seen).toEqual([
    { name: "waiting", value: expect.objectContaining({ type: "waiting", question: "Which?" }) },
    { outcome: { type: "cancelled" } },
  ]);
});

async function unacked(path: string): Promise<unknown[]> {
  return (await api.ask("GET", `${path}/replies`)).body.replies;
}
