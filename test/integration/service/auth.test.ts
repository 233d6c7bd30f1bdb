/** Who may ask: keys per tenant, their scopes, their rotation, what they see, and how often they may. */
import { once } from "node:events";
import { createServer, get, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import express, { type Request, type RequestHandler } from "express";
import { beforeAll, describe, expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { type Api, createApi } from "../../../src/service/api/api.ts";
import { createAuth } from "../../../src/service/api/auth.ts";
import type { Auth } from "../../../src/service/api/mount.ts";
import { agentRoutes } from "../../../src/service/api/routes/agents.ts";
import { eventRoutes } from "../../../src/service/api/routes/events.ts";
import { parentRoutes } from "../../../src/service/api/routes/parents.ts";
import { replyRoutes } from "../../../src/service/api/routes/replies.ts";
import { taskRoutes } from "../../../src/service/api/routes/tasks.ts";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { SubagentError } from "../../../src/shared/errors.ts";
import { createApiKeys, type Scope } from "../../../src/shared/redis/api-keys.ts";
import { redisNowMs } from "../../../src/shared/redis/redis-time.ts";
import { readEvents, startApi, type TestApi } from "../../helpers/api.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { handClock } from "../../helpers/hand-clock.ts";
import { latch } from "../../helpers/latch.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { refusal } from "../../helpers/parents.ts";
import { keysLike } from "../../helpers/redis.ts";
import { slowClient } from "../../helpers/slow-client.ts";
import { until } from "../../helpers/until.ts";
import { openStage, type Stage } from "../../stage/stage.ts";

const AGENTS = "/v1/parents/planner-7/agents";

let stage: Stage;
let api: TestApi;
let made = 0;

beforeAll(async () => {
  stage = await openStage();
  api = await startApi({ client: stage.client(), mounts: [agentProtocol()] });
});

function keys(of: Stage = stage) {
  return createApiKeys(of.redis, of.keys);
}

async function token(scope: Scope, tenant = "acme"): Promise<string> {
  made += 1;
  return (await keys().create({ tenant, name: `key ${made}`, scope })).token;
}

describe("without any key ever made", () => {
  test("this machine is answered, for one tenant, until the first key is made", async () => {
    const fresh = await openStage();
    const door = await startApi({ client: fresh.client() });
    expect((await door.ask("GET", AGENTS)).status).toBe(200);
    // As of a script whose variable is empty.
    expect((await door.ask("GET", AGENTS, { token: "" })).status).toBe(200);
    expect((await door.ask("GET", AGENTS, { headers: { "x-api-key": "" } })).status).toBe(200);
    expect((await door.ask("GET", AGENTS, { token: "saq_x" })).status).toBe(401);
    const { key_id } = await keys(fresh).create({ tenant: "acme", name: "first", scope: "read" });
    await until(async () => (await door.ask("GET", AGENTS)).status === 401);
    await keys(fresh).revoke(key_id);
    expect((await door.ask("GET", AGENTS)).status).toBe(401);
    const another = createApi({ client: fresh.client() });
    closeAtEnd(() => another.stop());
    expect(await another.start()).toEqual({ needsKey: true });
  });

  test("no other address is listened on, and it says why", async () => {
    const fresh = await openStage();
    const door: Api = createApi({ client: fresh.client(), host: "0.0.0.0" });
    await expect(door.start()).rejects.toMatchObject(refusal("invalid_config", /loopback.*keys create/));
  });
});

describe("a key", () => {
  test("is needed, and is never stored", async () => {
    const secret = await token("spawn");
    expect(await api.ask("GET", AGENTS)).toMatchObject({ status: 401, body: { code: "unauthorized" } });
    expect((await api.ask("GET", AGENTS)).headers.get("www-authenticate")).toMatch(/^Bearer/);
    for (const wrong of [
      "",
      "saq_x",
      `${secret.slice(0, -1)}g`,
      secret.replace(/.$/, (c) => (c === "0" ? "1" : "0")),
    ])
      expect((await api.ask("GET", AGENTS, { token: wrong })).status).toBe(401);
    expect((await api.ask("GET", AGENTS, { token: secret })).status).toBe(200);
    expect((await api.ask("GET", AGENTS, { headers: { "x-api-key": secret } })).status).toBe(200);
    const stored = JSON.stringify(await stage.redis.hgetall(stage.keys.apiKeys));
    expect(stored).not.toContain(secret.split("_")[2]);
  });

  test("that is sent in another form is not called unknown: the refusal says how to send it", async () => {
    const secret = await token("read");
    const basic = `Basic ${Buffer.from(`x:${secret}`).toString("base64")}`;
    for (const authorization of [secret, basic, `Token ${secret}`, `Bearer ${secret} ${secret}`]) {
      const { status, body } = await api.ask("GET", AGENTS, { headers: { authorization } });
      expect({ status, code: body.code }, authorization).toEqual({ status: 401, code: "unauthorized" });
      expect(body.detail, authorization).toContain("send it as `Authorization: Bearer saq_…`");
      expect(body.detail, authorization).not.toContain("unknown");
    }
    expect((await api.ask("GET", AGENTS, { token: "saq_x" })).body.detail).toContain("unknown or revoked");
  });

  test("in X-Api-Key is read beside an Authorization header without one, as a proxy sets it", async () => {
    const secret = await token("read");
    for (const authorization of ["Basic eDp5", "Bearer", "Token x", ""]) {
      const headers = { authorization, "x-api-key": secret };
      expect((await api.ask("GET", AGENTS, { headers })).status, authorization).toBe(200);
    }
    const headers = { authorization: "Bearer saq_x", "x-api-key": secret };
    expect((await api.ask("GET", AGENTS, { headers })).body.detail).toContain("unknown or revoked");
  });

  test("says whose agents a request is about; those of others look as if they did not exist", async () => {
    const [mine, theirs] = [await token("spawn", "mine"), await token("spawn", "theirs")];
    await api.ask("POST", AGENTS, { token: theirs, body: { name: "secret" } });
    const seen = await api.ask("GET", `${AGENTS}/secret`, {
      token: mine,
      headers: { "x-tenant": "theirs" },
    });
    const never = await api.ask("GET", `${AGENTS}/never_was`, { token: mine });
    expect([seen.status, never.status]).toEqual([404, 404]);
    expect(JSON.stringify(seen.body).replaceAll("secret", "x")).toBe(
      JSON.stringify(never.body).replaceAll("never_was", "x"),
    );
    const forged = { token: mine, body: { name: "x", tenant: "theirs" } };
    expect((await api.ask("POST", AGENTS, forged)).body.code).toBe("invalid_input");
    expect((await api.ask("GET", `${AGENTS}?tenant=theirs`, { token: mine })).body.code).toBe(
      "invalid_input",
    );
    expect((await api.ask("GET", AGENTS, { token: mine })).body.sub_agents).toEqual([]);
  });

  test("may do what its scope says", async () => {
    const reading = await token("read");
    expect((await api.ask("GET", AGENTS, { token: reading })).status).toBe(200);
    const refused = await api.ask("POST", AGENTS, { token: reading, body: { name: "x" } });
    expect(refused).toMatchObject({ status: 403, body: { code: "forbidden" } });
    expect((await api.ask("GET", AGENTS, { token: reading })).body.sub_agents).toEqual([]);
  });

  test.for([
    ["read", [200, 403, 403, 403]],
    ["spawn", [200, 201, 403, 403]],
    ["admin", [200, 201, 200, 200]],
  ] as const)(
    "of the scope %s may look, spawn, register a profile, see the installation: %j",
    async ([scope, may]) => {
      const parent = `/v1/parents/scoped-${scope}`;
      const asked = { token: await token(scope) };
      const answers = [
        await api.ask("GET", `${parent}/agents`, asked),
        await api.ask("POST", `${parent}/agents`, { ...asked, body: { name: "x" } }),
        await api.ask("PUT", parent, { ...asked, body: { model: "offline-1" } }),
        await api.ask("GET", "/metrics", asked),
      ];
      expect(answers.map(({ status }) => status)).toEqual(may);
    },
  );

  test("that only reads is refused by every route that changes something", async () => {
    const reading = await token("read");
    const changing = [taskRoutes, agentRoutes, parentRoutes, replyRoutes, eventRoutes]
      .flat()
      .filter(({ method }) => method !== "get");
    expect(changing.length).toBeGreaterThan(8);
    for (const { method, path } of changing) {
      const there = path.replace(/\{\w+\}/g, "x");
      const { status } = await api.ask(method.toUpperCase(), there, { token: reading, body: {} });
      expect(status, `${method} ${path}`).toBe(403);
    }
  });

  test("that is guessed again and again is refused for its address; a right one is not", async () => {
    const fresh = await openStage();
    const door = await startApi({ client: fresh.client() });
    const right = await keys(fresh).create({ tenant: "acme", name: "right", scope: "read" });
    const guess = async () =>
      (await door.ask("GET", AGENTS, { token: `${right.token.slice(0, -1)}x` })).status;
    const statuses: number[] = [];
    for (let i = 0; i < 61; i += 1) statuses.push(await guess());
    expect([statuses.slice(0, 60).every((status) => status === 401), statuses[60]]).toEqual([true, 429]);
    expect((await door.ask("GET", AGENTS, { token: right.token })).status).toBe(200);
  });

  test("of callers that make a key of a name at once, too many never stay", async () => {
    const store = keys();
    for (let round = 0; round < 10; round++) {
      const name = `at once ${round}`;
      const first = await store.create({ tenant: "acme", name, scope: "read" });
      const rotations = await Promise.allSettled(Array.from({ length: 6 }, () => store.rotate(first.key_id)));
      const made = rotations.flatMap((each) => (each.status === "fulfilled" ? [each.value.key_id] : []));
      const live = (await store.list()).filter((key) => key.name === name).map(({ key_id }) => key_id);
      expect(live.length).toBeLessThanOrEqual(2);
      expect(live.sort()).toEqual([first.key_id, ...made].sort());
    }
  });

  test("has a second one of its name for a rotation, and no third", async () => {
    const store = keys();
    const first = await store.create({ tenant: "acme", name: "rotated", scope: "read" });
    await expect(store.create({ tenant: "acme", name: "rotated", scope: "read" })).rejects.toMatchObject(
      refusal("conflict", /rotate/),
    );
    const second = await store.rotate(first.key_id);
    expect(second).toMatchObject({ tenant: "acme", name: "rotated", scope: "read" });
    const works = async () =>
      Promise.all(
        [first, second].map(async (key) => (await api.ask("GET", AGENTS, { token: key.token })).status),
      );
    expect(await works()).toEqual([200, 200]);
    await expect(store.rotate(first.key_id)).rejects.toMatchObject(refusal("conflict", /revoke/));
    await store.revoke(first.key_id);
    expect(await works()).toEqual([401, 200]);
    await expect(store.revoke("unheard-of")).rejects.toMatchObject(refusal("unknown_key"));
  });

  test("that was revoked keeps the time at which it was, and gets no second one", async () => {
    const store = keys();
    const { key_id } = await store.create({ tenant: "acme", name: "given up", scope: "read" });
    const revoked = await store.revoke(key_id);
    await expect(store.rotate(key_id)).rejects.toMatchObject(refusal("conflict", /create a new one/));
    await until(async () => (await redisNowMs(stage.redis)) > Date.parse(revoked.revoked_at ?? ""));
    expect(await store.revoke(key_id)).toEqual(revoked);
  });
});

describe("what shows the whole installation", () => {
  test.for(["/admin/queues", "/admin/queues/api/queues", "/metrics"])(
    "%s needs an operator's key",
    async (path) => {
      const [operator, tenant] = [await token("admin"), await token("spawn")];
      const refused = await api.ask("GET", path);
      expect([refused.status, refused.headers.get("www-authenticate")]).toEqual([
        401,
        'Bearer, Basic realm="subagent-queue"',
      ]);
      expect((await api.ask("GET", path, { token: tenant })).status).toBe(403);
      expect((await api.ask("GET", path, { token: operator })).status).toBe(200);
      const basic = `Basic ${Buffer.from(`operator:${operator}`).toString("base64")}`;
      expect((await api.ask("GET", path, { headers: { authorization: basic } })).status).toBe(200);
      expect((await api.ask("PUT", path, { token: operator, body: {} })).status).not.toBe(200);
    },
  );

  test("offers a browser its dialog in a header of its own, the only place where Chromium finds it", async () => {
    await token("admin");
    const [answer] = (await once(get(`${api.url}/admin/queues`), "response")) as [IncomingMessage];
    answer.resume();
    expect(answer.headersDistinct["www-authenticate"]).toEqual(["Bearer", 'Basic realm="subagent-queue"']);
  });

  test("counts the requests of this process", async () => {
    const { body } = await api.ask("GET", "/metrics", { token: await token("admin") });
    expect(body).toMatch(/subagent_api_requests_total\{method="GET",status="4xx"\} [1-9]/);
    expect(body).toMatch(/subagent_wakes\{state="waiting"\} 0/);
  });

  test("is not changed by basic authentication, which a browser sends by itself", async () => {
    const basic = `Basic ${Buffer.from(`x:${await token("spawn")}`).toString("base64")}`;
    const spawn = { body: { name: "x" }, headers: { authorization: basic } };
    expect((await api.ask("POST", AGENTS, spawn)).status).toBe(401);
  });

  test.for([AGENTS, "/agent-protocol/threads/t/state", "/agent-protocol/threads/t/runs/r/join"])(
    "basic authentication opens nothing else: not GET %s, which may ack what it shows",
    async (path) => {
      const key = await token("admin");
      const basic = `Basic ${Buffer.from(`operator:${key}`).toString("base64")}`;
      const refused = await api.ask("GET", path, { headers: { authorization: basic } });
      expect([refused.status, refused.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
      expect((await api.ask("GET", path, { token: key })).status).not.toBe(401);
    },
  );
});

/** `failing`: the opening of Redis that fails. `before`: what sees a request first. `isOpen`: until then Redis is not open. */
interface GuardOptions {
  failing?: number;
  before?: RequestHandler;
  isOpen?: Promise<unknown>;
  requestsAtOnce?: number;
}

/** A guard on a stage of its own, and the address of a server that passes requests to `answer` behind it. */
async function guarded(
  answer: (auth: Auth, request: Request) => Promise<unknown>,
  { failing = 0, before = (_request, _response, next) => next(), ...options }: GuardOptions = {},
) {
  const fresh = await openStage();
  const client = await internalsOf(fresh.client()).open();
  const clock = handClock();
  let opened = 0;
  const open = async () => {
    opened += 1;
    if (opened === failing) throw new SubagentError("redis_unavailable", "Redis is away.");
    await options.isOpen;
    return client;
  };
  const bounds = { requestsPerMinute: 10, requestsAtOnce: options.requestsAtOnce ?? 10 };
  const auth = createAuth({ open, openWithoutKeys: true, tenant: "default", clock, ...bounds });
  const app = express();
  app.get("/", before, auth.require("read"), async (request, response) => {
    response.json(await answer(auth, request));
  });
  return { fresh, clock, url: await listenUntilEnd(createServer(app)) };
}

test("what could not be counted because Redis was away is counted again when it is back", async () => {
  // The first opening asks for keys, the second one is for the counters.
  const { url } = await guarded(async () => ({}), { failing: 2 });
  expect((await fetch(url)).status).toBe(503);
  expect((await fetch(url)).status).toBe(200);
});

test("a stream without a key is over once the first key is made", async () => {
  const { fresh, clock, url } = await guarded(async (auth, request) => {
    const before = await auth.isStillValid(request);
    await keys(fresh).create({ tenant: "acme", name: "first", scope: "read" });
    clock.advance(1_000);
    return [before, await auth.isStillValid(request)];
  });
  expect(await (await fetch(url)).json()).toEqual([true, false]);
});

describe("the number of requests", () => {
  test("is bounded for a key over all API processes, under a name that tells nothing", async () => {
    const [one, other] = await Promise.all(
      [1, 2].map(() => startApi({ client: stage.client(), requestsPerMinute: 10 })),
    );
    if (!one || !other) throw new Error("no API");
    const secret = await token("read");
    const counters = () => keysLike(stage.redis, `${stage.keys.requestRate}:requests:*`);
    const before = await counters();
    const statuses = [(await one.ask("GET", AGENTS, { token: secret })).status];
    const [counted = ""] = (await counters()).filter((name) => !before.includes(name));
    // A minute's window has begun.
    expect(await stage.redis.pttl(counted)).toBeGreaterThan(30_000);
    for (let i = 0; i < 11; i++)
      statuses.push((await (i % 2 ? one : other).ask("GET", AGENTS, { token: secret })).status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(10);
    const refused = await one.ask("GET", AGENTS, { token: secret });
    expect(refused).toMatchObject({ status: 429, body: { code: "rate_limited", retryable: true } });
    // What is left of the window only falls: a client that waits as it is told is not refused again.
    const leftMs = await stage.redis.pttl(counted);
    expect(Number(refused.headers.get("retry-after")) * 1_000).toBeGreaterThanOrEqual(leftMs);
    expect(Number(refused.headers.get("retry-after"))).toBeLessThanOrEqual(60);
    expect((await one.ask("GET", AGENTS, { token: await token("read") })).status).toBe(200);
    const names = await keysLike(stage.redis, `${stage.keys.requestRate}*`);
    expect(names.length).toBeGreaterThan(0);
    const [, id = "?"] = secret.split("_");
    expect(names.filter((name) => name.includes(id) || name.includes("127.0.0.1"))).toEqual([]);
  });
});

describe("a request", () => {
  test("under another name than this machine's, or by another site, is refused", async () => {
    const secret = await token("read");
    const hello = (lines: string[]) => rawStatus(api.url, ["GET /healthz HTTP/1.1", ...lines]);
    expect(await hello(["Host: evil.example"])).toBe(403);
    expect(await hello(["Host: 127.0.0.1", "Origin: https://evil.example"])).toBe(403);
    expect(await hello(["Host: 127.0.0.1", "Sec-Fetch-Site: cross-site"])).toBe(403);
    expect(await hello(["Host: 127.0.0.1"])).toBe(200);
    expect(
      (await api.ask("GET", AGENTS, { token: secret, headers: { origin: "https://evil.example" } })).status,
    ).toBe(403);
  });

  test("that is too large, broken or compressed is refused, and what is repeated of it is bounded", async () => {
    const secret = await token("spawn");
    const send = (body: string, headers: Record<string, string> = {}) =>
      api.ask("POST", AGENTS, { token: secret, body, headers });
    expect(await send(`{"name": "${"x".repeat(2 ** 23)}"}`)).toMatchObject({
      status: 413,
      body: { code: "too_large" },
    });
    expect(await send("{broken")).toMatchObject({ status: 400, body: { code: "invalid_input" } });
    expect((await send("{}", { "content-encoding": "gzip" })).status).toBe(400);
    const long = await send(JSON.stringify({ name: "a", ["f".repeat(500_000)]: 1 }));
    const many = await send(JSON.stringify({ name: "a", tools: Array.from({ length: 100_000 }, () => 1) }));
    for (const { status, body } of [long, many]) {
      expect(status).toBe(400);
      expect(JSON.stringify(body).length).toBeLessThan(20_000);
    }
    const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
    expect((await send(deep)).status).toBe(400);
  });

  test("whose body says that it is no JSON is refused, at every door that reads one", async () => {
    const secret = await token("spawn");
    for (const type of ["application/x-www-form-urlencoded", "text/plain;charset=UTF-8"])
      expect(
        await api.ask("POST", AGENTS, { token: secret, body: "{}", headers: { "content-type": type } }),
      ).toMatchObject({
        status: 415,
        body: { code: "unsupported_media_type", detail: expect.stringContaining("application/json") },
      });
    // `fetch` sends Content-Length: 0 and no type.
    expect((await api.ask("POST", AGENTS, { token: secret })).body.detail).toMatch(/name: is missing/);
  });

  test("whose address is not well encoded is told so", async () => {
    const secret = await token("read");
    expect(await api.ask("GET", "/v1/parents/%E0%A4%A/agents", { token: secret })).toMatchObject({
      status: 400,
      body: { code: "invalid_input", detail: expect.stringContaining("percent-encoded") },
    });
  });

  test("to nothing, or with another method, says what is there", async () => {
    const secret = await token("read");
    expect(await api.ask("GET", "/v1/nothing", { token: secret })).toMatchObject({
      status: 404,
      body: { code: "not_found" },
    });
    expect(await api.ask("PATCH", AGENTS, { token: secret })).toMatchObject({
      status: 405,
      body: { detail: expect.stringContaining("POST or GET") },
    });
    const { headers } = await api.ask("PATCH", AGENTS, { token: secret });
    expect(headers.get("allow")).toBe("POST, GET, HEAD");
  });
});

describe("a tenant whose requests wait", () => {
  test("shuts no other out: one more than its share is refused, until one has ended", async () => {
    const door = await startApi({ client: stage.client(), requestsAtOnce: 3 });
    const [greedy, other] = [await token("read", "greedy"), await token("read", "modest")];
    const replies = "/v1/parents/planner-7/replies";
    const leaving = new AbortController();
    const headers = { accept: "text/event-stream", authorization: `Bearer ${greedy}` };
    for (let stream = 1; stream <= 3; stream++)
      expect((await fetch(door.url + replies, { headers, signal: leaving.signal })).status).toBe(200);
    const asked = await door.ask("GET", replies, { token: greedy });
    expect(asked).toMatchObject({ status: 429, body: { code: "rate_limited", retryable: true } });
    expect((await door.ask("GET", replies, { token: other })).status).toBe(200);
    leaving.abort();
    await until(async () => (await door.ask("GET", replies, { token: greedy })).status === 200);
  });
});

test("a request whose client left before it was let in takes nothing of its tenant's share", async () => {
  const [asked, left, redis, letIn] = [latch(), latch(), latch(), latch()];
  const before: RequestHandler = (_request, response, next) => {
    response.once("close", () => left.open());
    asked.open();
    next();
  };
  const answer = async () => letIn.open();
  const { url } = await guarded(answer, { before, isOpen: redis.opened, requestsAtOnce: 1 });
  const client = await slowClient(url, "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  await asked.opened;
  client.destroy();
  await left.opened;
  redis.open();
  await letIn.opened;
  expect((await fetch(url)).status).toBe(200);
});

describe("clients that are slow", () => {
  test("shut nobody out: headers that never end and bodies that trickle hold up no other", async () => {
    const secret = await token("read");
    const { port } = new URL(api.url);
    const sockets = Array.from({ length: 200 }, (_, i) => {
      const socket = connect(Number(port), "127.0.0.1");
      socket.on("error", () => {});
      const body = `Authorization: Bearer ${secret}\r\nContent-Length: 1000\r\n\r\n{`;
      socket.write(`POST ${AGENTS} HTTP/1.1\r\nHost: 127.0.0.1\r\n${i % 2 ? body : "X-Slow: "}`);
      return socket;
    });
    closeAtEnd(() => {
      for (const socket of sockets) socket.destroy();
    });
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => api.ask("GET", AGENTS, { token: secret })),
    );
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 20 }, () => 200));
  });
});

test("a stream of replies needs a key like everything else", async () => {
  const read = (options: { token?: string }) =>
    readEvents(`${api.url}/v1/parents/planner-7/replies`, options).next();
  await expect(read({})).rejects.toThrow(/^401/);
  await expect(read({ token: "saq_no" })).rejects.toThrow(/^401/);
});

/** The status of a request whose headers a client's library would not send. */
function rawStatus(url: string, lines: string[]): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(url).port), "127.0.0.1");
    socket.on("error", reject);
    socket.once("data", (bytes) => {
      resolve(Number(/^HTTP\/1\.1 (\d{3})/.exec(bytes.toString())?.[1]));
      socket.destroy();
    });
    socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  });
}

describe("what a request has waited for", () => {
  const asks = { messages: [{ role: "user", content: "go" }] };
  const call = { name: "task", arguments: { prompt: "go" } };
  const doors = [
    ["a task", "task", "POST", "/v1/parents/planner-7/tasks?wait=300", { prompt: "go" }],
    ["a page of replies", "helper", "GET", "/v1/parents/planner-7/replies?wait=300", undefined],
    [
      "a run of the Agent Protocol",
      "researcher",
      "POST",
      "/agent-protocol/runs/wait",
      { assistant_id: "researcher", input: asks },
    ],
    [
      "a tool of MCP",
      "task",
      "POST",
      "/mcp?parent=planner-7",
      { jsonrpc: "2.0", id: 1, method: "tools/call", params: call },
    ],
  ] as const;
  test.for(doors)("is not shown to a key that was revoked meanwhile, and stays: %s", async (door) => {
    const [, agentId, method, path, body] = door;
    const waiting = await openStage();
    const clock = handClock();
    const mounts = [agentProtocol(), mcpMount()];
    const { ask } = await startApi({ client: waiting.client(), mounts, clock });
    const { token, key_id } = await keys(waiting).create({ tenant: "default", name: "k", scope: "spawn" });
    const { doorbell } = waiting.keys.parent({ tenant: "default", parentId: "planner-7" });
    const accept = path.startsWith("/mcp") ? "application/json, text/event-stream" : "application/json";
    const headers = { accept, "x-parent-id": "planner-7" };
    const answer = ask(method, path, { token, headers, ...(body && { body }) });
    const worker = waiting.scriptedWorker();
    if (!body) {
      await until(async () => (await waiting.redis.pubsub("NUMSUB", doorbell))[1] === 1);
      const { agent_id } = await waiting.parent().spawn({ name: agentId });
      await waiting.parent().send(agent_id, "go");
    }
    await worker.uidOf(agentId);
    await keys(waiting).revoke(key_id);
    clock.advance(15_000);
    await worker.run(agentId, { summary: "the secret result" });
    const { status, body: shown } = await answer;
    expect(status).toBe(path.startsWith("/mcp") ? 200 : 401);
    expect(JSON.stringify(shown)).toContain("unknown or revoked");
    expect(JSON.stringify(shown)).not.toContain("secret");
    const { entries } = await waiting.parent().newReplies();
    expect(entries).toMatchObject([{ summary: "the secret result" }]);
  });
});
