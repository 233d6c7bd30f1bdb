/** Guarantee: what goes wrong inside is in the log, and a client hears nothing of it but that. */
import { createServer } from "node:http";
import { text } from "node:stream/consumers";
import express from "express";
import { describe, expect, test } from "vitest";
import { internalsOf } from "../../../src/producer/client.ts";
import { agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import type { Mount } from "../../../src/service/api/mount.ts";
import { createBoardApp } from "../../../src/service/board/app.ts";
import { mcpMount } from "../../../src/service/mcp/mount.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { createLogger } from "../../../src/shared/logger.ts";
import { agentOf } from "../../../src/shared/protocol/keys.ts";
import { ask, startApi } from "../../helpers/api.ts";
import { latch } from "../../helpers/latch.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { askMcp } from "../../helpers/mcp.ts";
import { slowClient } from "../../helpers/slow-client.ts";
import { openStage } from "../../stage/stage.ts";

const INTERNALS = "connect ECONNREFUSED 10.20.30.40:6379";
const LOG_SAYS_WHY = "This request cannot be answered; the server's log says why.";
const ERROR_LEVEL = 50;

/** A door that breaks. */
const broken: Mount = {
  path: "/broken",
  scope: "read",
  handler: () => (_request, _response, next) => next(new TypeError(INTERNALS)),
};

/** A logger, and the lines of level error that it was given. */
function log() {
  const errors: Record<string, unknown>[] = [];
  const write = (line: string) => {
    const told: Record<string, unknown> = JSON.parse(line);
    if (told.level === ERROR_LEVEL) errors.push(told);
  };
  return { errors, logger: createLogger({ level: "error", destination: { write } }) };
}

async function scene() {
  const { errors, logger } = log();
  const stage = await openStage();
  const client = stage.client();
  const api = await startApi({ client, logger, mounts: [broken, mcpMount(), agentProtocol()] });
  return { stage, client, api, errors };
}

describe("the log says", () => {
  test("what is no refusal, with its stack; the answer says nothing of it", async () => {
    const { api, errors } = await scene();
    const { status, body } = await api.ask("GET", "/broken");
    expect([status, body.detail]).toEqual([500, LOG_SAYS_WHY]);
    expect(JSON.stringify(body)).not.toContain(INTERNALS);
    expect(errors).toMatchObject([{ problem: INTERNALS, stack: expect.stringMatching(/problems\.test/) }]);
  });

  test("what is in Redis and cannot be read, whichever door was asked", async () => {
    const { stage, api, errors } = await scene();
    const thread = "/agent-protocol/threads";
    const { thread_id } = (await api.ask("POST", thread, { body: {} })).body;
    const input = { messages: [{ role: "user", content: "go" }] };
    const run = { body: { assistant_id: "researcher", input } };
    expect((await api.ask("POST", `${thread}/${thread_id}/runs`, run)).status).toBe(200);
    const parent = { tenant: "default", parentId: "agent-protocol" };
    const [uid = ""] = await stage.redis.hkeys(stage.keys.parent(parent).live);
    await stage.redis.hset(stage.keys.agent(agentOf(parent, uid)).record, "status", "unheard-of");
    for (const path of ["/v1/parents/agent-protocol/agents/researcher", `${thread}/${thread_id}/runs`])
      expect((await api.ask("GET", path)).status).toBe(500);
    const unreadable = { code: "protocol_violation", problem: expect.any(String) };
    expect(errors).toMatchObject([unreadable, unreadable]);
  });

  test("nothing at that level of what a client did wrong", async () => {
    const { api, errors } = await scene();
    const path = "/v1/parents/planner-7/agents";
    expect((await api.ask("POST", path, { body: "{" })).status).toBe(400);
    expect((await api.ask("POST", path, { body: { name: 1 } })).status).toBe(400);
    expect((await api.ask("GET", `${path}/nobody`)).status).toBe(404);
    expect(errors).toEqual([]);
  });

  test("what broke behind the board", async () => {
    const { errors, logger } = log();
    const board = express().use((_request, _response, next) => next(new TypeError(INTERNALS)));
    const app = createBoardApp({ board, hosts: "any", trouble: () => undefined, clock: systemClock, logger });
    const url = await listenUntilEnd(createServer(app));
    const { status, body } = await ask(new URL("/admin/queues", url).href, "GET");
    expect([status, body.detail]).toEqual([500, "This request cannot be answered."]);
    expect(errors).toMatchObject([{ problem: INTERNALS }]);
  });
});

test("a client of MCP hears nothing of what went wrong inside", async () => {
  const { client, api, errors } = await scene();
  const open = await internalsOf(client).open();
  // As a mistake of ours would: in a call, and no command's failure.
  Object.assign(open, { requireDurable: () => Promise.reject(new TypeError(INTERNALS)) });
  const url = `${api.url}/mcp?parent=planner-7`;
  const answers = [
    await askMcp(url, "tools/call", { name: "task", arguments: { prompt: "go" } }),
    await askMcp(url, "tools/call", { name: "spawn_sub_agent", arguments: { name: "helper" } }),
  ];
  for (const { error } of answers) expect(error?.message).toBe(LOG_SAYS_WHY);
  expect(JSON.stringify(answers)).not.toContain(INTERNALS);
  expect(errors.map(({ problem }) => problem)).toEqual([INTERNALS, INTERNALS]);
});

test("readiness is one question to Redis for all who ask meanwhile", async () => {
  const stage = await openStage({ redis: "own" });
  const client = stage.client();
  const api = await startApi({ client });
  const { redis } = await internalsOf(client).open();
  const [asked, answered] = [latch(), latch<[number, number]>()];
  let questions = 0;
  Object.assign(redis, {
    time() {
      questions += 1;
      asked.open();
      return answered.opened;
    },
  });
  const first = api.ask("GET", "/readyz");
  await asked.opened;
  const more = Array.from({ length: 20 }, () =>
    slowClient(api.url, "GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"),
  );
  const answers = (await Promise.all(more)).map((socket) => text(socket));
  // A connection after theirs: when its request is answered, theirs have been read.
  await api.ask("GET", "/healthz", { headers: { connection: "close" } });
  answered.open([0, 0]);
  expect(await first).toMatchObject({ status: 200 });
  for (const answer of await Promise.all(answers)) expect(answer).toContain('"ready":true');
  expect(questions).toBe(1);
  await api.ask("GET", "/readyz");
  expect(questions).toBe(2);
});

test("whether the API is ready needs no key, and names no address", async () => {
  const stage = await openStage({ redis: "own" });
  const api = await startApi({ client: stage.client() });
  expect(await api.ask("GET", "/readyz")).toMatchObject({ status: 200, body: { ready: true, reasons: [] } });
  await stage.server.kill();
  expect(await api.ask("GET", "/readyz")).toMatchObject({
    status: 503,
    body: { ready: false, redis: "away", reasons: ["Redis does not answer"] },
  });
});
