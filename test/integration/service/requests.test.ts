/** What a request may say to the API, in which form, how often, and what the operator sees of it. */
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Response } from "express";
import { beforeAll, describe, expect, test } from "vitest";
import { agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { createApi } from "../../../src/service/api/api.ts";
import type { Mount } from "../../../src/service/api/mount.ts";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { agentOf } from "../../../src/shared/protocol/keys.ts";
import { createApiKeys } from "../../../src/shared/redis/api-keys.ts";
import { createWakeQueue } from "../../../src/shared/redis/wake-queue.ts";
import { openWorkspace } from "../../../src/worker/tools/workspace.ts";
import { startApi, type TestApi } from "../../helpers/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { refusal } from "../../helpers/parents.ts";
import { keysLike } from "../../helpers/redis.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const MIB = 1_024 * 1_024;
const PATH = "/v1/parents/planner-7";
const tenant = "default";

let stage: Stage;
let api: TestApi;

beforeAll(async () => {
  stage = await openStage();
  api = await startApi({ client: stage.client({ workspaceRoot: stage.workspaceRoot }) });
});

describe("a request", () => {
  test("has one key, whether its header has it in quotes or bare", async () => {
    const ask = (key: string) =>
      api.ask("POST", `${PATH}/tasks`, {
        body: { name: "once", prompt: "go", request_key: "once" },
        headers: { "idempotency-key": key },
      });
    const answers = [await ask('"once"'), await ask("once")];
    expect(answers.map(({ status, body }) => [status, body.agent_id, body.known])).toEqual([
      [202, "once", false],
      [202, "once", true],
    ]);
  });

  test("may give null for what it leaves out", async () => {
    const body = { name: "sparse", description: null, model: null, tools: null };
    expect(await api.ask("POST", `${PATH}/agents`, { body })).toMatchObject({
      status: 201,
      body: { agent_id: "sparse" },
    });
  });

  test("may have more than a megabyte where it may bring files, and nowhere else", async () => {
    const files = [1, 2, 3].map((n) => ({ path: `${n}.txt`, content: "x".repeat(MIB / 2) }));
    const spawn = await api.ask("POST", `${PATH}/agents`, { body: { name: "loaded", files } });
    expect(spawn.status, JSON.stringify(spawn.body)).toBe(201);
    const text = "x".repeat(2 * MIB);
    const resume = await api.ask("POST", `${PATH}/agents/loaded/resume`, { body: { text } });
    expect(resume).toMatchObject({ status: 413, body: { code: "too_large" } });
  });

  test("for a file in a folder gets the file of that folder", async () => {
    const agentId = (await api.ask("POST", `${PATH}/agents`, { body: { name: "writer" } })).body.agent_id;
    const parentId = "planner-7";
    const uid = (await stage.store.uidOf({ tenant, parentId }, agentId)) ?? "";
    const { workspace } = await openWorkspace({
      ...{ root: stage.workspaceRoot, tenant, parentId, uid, agentId },
      ...{ roots: [], expected: false, clock: systemClock },
    });
    await mkdir(join(workspace.directory, "reports/may"), { recursive: true });
    await writeFile(join(workspace.directory, "reports/may/a b.txt"), "of May");
    await writeFile(join(workspace.directory, "a b.txt"), "of nothing");
    const read = async (path: string) =>
      (await fetch(`${api.url}${PATH}/agents/writer/files/${path}`)).text();
    expect(await read("reports/may/a%20b.txt")).toBe("of May");
    expect(await read("reports%2Fmay%2Fa%20b.txt")).toBe("of May");
    expect(await read("a%20b.txt")).toBe("of nothing");
  });

  test("below a route that has nothing there is told so, and not to use the method that it has used", async () => {
    const { status, body } = await api.ask("GET", `${PATH}/agents/writer/reply/of/may`);
    expect([status, body.code]).toEqual([404, "not_found"]);
    expect((await api.ask("PATCH", `${PATH}/agents/`)).status).toBe(405);
  });
});

test("an ended agent is resumed once under a key, and its transcript comes from a message on", async () => {
  const own = await openStage();
  await own.startWorker();
  const door = await startApi({ client: own.client() });
  await door.ask("PUT", PATH, { body: { transcript_ms: 3_600_000 } });
  await door.ask("POST", `${PATH}/tasks?wait=60`, { body: { prompt: "Say hello" } });
  const transcript = `${PATH}/agents/task/transcript`;
  const { entries } = (await door.ask("GET", transcript)).body;
  expect(entries.length).toBeGreaterThan(1);
  const { body: page } = await door.ask("GET", `${transcript}?limit=1`);
  expect(page).toMatchObject({ entries: [entries[0]], next: expect.any(Number) });
  const { body: rest } = await door.ask("GET", `${transcript}?after=${page.next}`);
  expect(rest.entries).toEqual(entries.slice(1));
  const resume = () =>
    door.ask("POST", `${PATH}/agents/task/resume`, {
      body: { text: "Once more" },
      headers: { "idempotency-key": "once" },
    });
  const [first, again] = [await resume(), await resume()];
  expect([first.status, again.status, again.body.agent_id]).toEqual([201, 201, first.body.agent_id]);
});

test("an answer to a question that is not open leaves the open one waiting", async () => {
  const ask = { type: "tool_use" as const, name: "ask_parent", input: { question: "Which?" } };
  const own = await openStage({ scenario: { turns: [{ content: [ask] }] } });
  await own.startWorker();
  const door = await startApi({ client: own.client() });
  await door.ask("POST", `${PATH}/tasks`, { body: { prompt: "go" } });
  const agent = () => door.ask("GET", `${PATH}/agents/task`);
  await until(async () => (await agent()).body.status === "waiting");
  const body = { text: "blue", question_id: "another" };
  expect((await door.ask("POST", `${PATH}/agents/task/answers`, { body })).status).toBeGreaterThanOrEqual(
    400,
  );
  expect((await agent()).body).toMatchObject({ status: "waiting", questions: [{ text: "Which?" }] });
});

test("the list of parents counts the agents of each status, and looking at a parent does not make it active", async () => {
  const own = await openStage();
  const door = await startApi({ client: own.client() });
  const statuses = ["running", "queued", "queued", "waiting", "waiting", "waiting", "idle"];
  const parentId = "busy";
  for (const [n, status] of statuses.entries()) {
    const { agent_id } = await own.parent(parentId).spawn({ name: `agent ${n}` });
    const uid = (await own.store.uidOf({ tenant, parentId }, agent_id)) ?? "";
    await own.redis.hset(own.keys.agent(agentOf({ tenant, parentId }, uid)).record, "status", status);
  }
  const list = async () => (await door.ask("GET", "/v1/parents")).body.parents[0];
  const first = await list();
  expect(first.live).toEqual({ running: 1, queued: 2, waiting: 3, idle: 1 });
  await until(() => Date.now() > Date.parse(first.active_at) + 5);
  expect((await list()).active_at).toBe(first.active_at);
});

describe("the metrics", () => {
  test("say how long a request took, which one its client left, and that one was refused", async () => {
    const clock = handClock();
    const held: Response[] = [];
    const mount: Mount = {
      path: "/held",
      scope: "read",
      handler: () => (_request: unknown, response: Response) => void held.push(response),
    };
    const door = await startApi({ client: stage.client(), clock, mounts: [mount] });
    const answered = door.ask("GET", "/held");
    await until(() => held.length === 1);
    clock.advance(2_000);
    held[0]?.json({});
    await answered;
    const leaving = new AbortController();
    const left = door.ask("GET", "/held", { signal: leaving.signal });
    await until(() => held.length === 2);
    leaving.abort();
    await expect(left).rejects.toThrow();
    const foreign = await door.ask("GET", "/healthz", { headers: { origin: "https://evil.example" } });
    expect(foreign.status).toBe(403);
    const { headers, body } = await until(async () => {
      const answer = await door.ask("GET", "/metrics");
      return /status="gone"/.test(answer.body) && /status="4xx"/.test(answer.body) && answer;
    });
    expect(headers.get("content-type")).toMatch(/^text\/plain; version=/);
    expect(body).toMatch(/^subagent_api_requests_total\{method="GET",status="gone"\} 1$/m);
    expect(body).toMatch(/^subagent_api_requests_total\{method="GET",status="4xx"\} 1$/m);
    expect(body).toMatch(/^subagent_api_request_duration_seconds_sum 2$/m);
  });

  test("count the wakes by their state", async () => {
    const own = await openStage();
    const door = await startApi({ client: own.client() });
    const { agent_id } = await own.parent().spawn({ name: "waiter" });
    await own.parent().send(agent_id, "go");
    const wakes = createWakeQueue(own.redis, own.keys);
    closeAtEnd(() => wakes.stop());
    for (const wake of [1, 2])
      await wakes.add(
        { tenant, parent_id: "p", uid: `sa-${"0".repeat(24)}`, agent_id: "later", wake },
        60_000,
      );
    const { body } = await door.ask("GET", "/metrics");
    const counts = [...body.matchAll(/^subagent_wakes\{state="(\w+)"\} (\d+)$/gm)].map(([, ...each]) => each);
    expect(Object.fromEntries(counts)).toEqual({ waiting: "1", active: "0", delayed: "2" });
  });
});

describe("an API", () => {
  const keysOf = (of: Stage) => createApiKeys(of.redis, of.keys);

  test("takes 6,000 requests a minute of a key, unless its operator says otherwise", async () => {
    const own = await openStage();
    const door = await startApi({ client: own.client() });
    const { token } = await keysOf(own).create({ tenant, name: "k", scope: "read" });
    const ask = async () => (await door.ask("GET", `${PATH}/agents`, { token })).status;
    expect(await ask()).toBe(200);
    const [counter = ""] = await keysLike(own.redis, `${own.keys.requestRate}:requests:*`);
    await own.redis.set(counter, 5_999, "KEEPTTL");
    expect([await ask(), await ask()]).toEqual([200, 429]);
  });

  test("lets a key that only reads begin nothing, at any of its doors", async () => {
    const own = await openStage();
    const door = await startApi({ client: own.client(), mounts: [mcpMount(), agentProtocol()] });
    const list = { jsonrpc: "2.0", id: 1, method: "tools/list" };
    const accept = "application/json, text/event-stream";
    const statusesOf = async (scope: "read" | "spawn") => {
      const { token } = await keysOf(own).create({ tenant, name: scope, scope });
      return [
        (await door.ask("POST", "/mcp", { token, body: list, headers: { accept } })).status,
        (await door.ask("POST", "/agent-protocol/threads", { token, body: {} })).status,
      ];
    };
    expect([await statusesOf("read"), await statusesOf("spawn")]).toEqual([
      [403, 403],
      [200, 200],
    ]);
  });

  test("that could not listen can be started once its address is free", async () => {
    const other = createServer().listen(0, "127.0.0.1");
    closeAtEnd(() => void other.close());
    await once(other, "listening");
    const door = createApi({ client: stage.client(), port: (other.address() as AddressInfo).port });
    closeAtEnd(() => door.stop());
    await expect(door.start()).rejects.toMatchObject(refusal("setup_failed", /cannot listen/));
    other.close();
    await once(other, "close");
    await door.start();
    expect((await fetch(`${door.url}/healthz`)).status).toBe(200);
  });

  test("says in its log that it needs no key, and says nothing of it once it does", async () => {
    const own = await openStage();
    const lines: string[] = [];
    const logger = createLogger({ destination: { write: (line) => void lines.push(line) } });
    const client = own.client();
    const told = () => lines.filter((line) => line.includes("every user of this machine")).length;
    await startApi({ client, logger });
    expect(told()).toBe(1);
    await keysOf(own).create({ tenant, name: "first", scope: "read" });
    await startApi({ client, logger });
    expect(told()).toBe(1);
  });
});
