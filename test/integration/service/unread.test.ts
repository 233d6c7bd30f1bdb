/** Answers that a tenant's clients do not read: how many this process holds, and which it never refuses. */
import { createServer } from "node:http";
import type { Socket } from "node:net";
import express from "express";
import { expect, test } from "vitest";
import { z } from "zod";
import { internalsOf } from "../../../src/producer/client.ts";
import { agentProtocol } from "../../../src/service/agent-protocol/router.ts";
import { createAuth } from "../../../src/service/api/auth.ts";
import { type Route, routerOf } from "../../../src/service/api/route.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { slowClient } from "../../helpers/slow-client.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

/** Such answers that a tenant may leave unread. */
const MOST_UNREAD = 4;
/** So long that no network takes the answer from a client that does not read it; four fill the bound but for some bytes. */
const ANSWER = "x".repeat((128 * 1_024 * 1_024) / MOST_UNREAD - 4);
/** Fewer characters than the bound has bytes, but more bytes. */
const WIDE_ANSWER = "€".repeat(45_000_000);

/** Serves three routes whose answers are large, two that read and one that changes something, and the Agent Protocol. */
async function startLargeAnswers() {
  const client = (await openStage()).client();
  const { open } = internalsOf(client);
  const bounds = { requestsPerMinute: 1_000, requestsAtOnce: 1_000 };
  const auth = createAuth({ open, openWithoutKeys: true, tenant: "unread", clock: systemClock, ...bounds });
  const row = {
    path: "/large",
    id: "large",
    says: "A large answer.",
    tag: "test",
    scope: "read",
    answers: { 200: { says: "It.", schema: z.string() } },
    handle: async () => ({ status: 200, body: ANSWER }),
  } satisfies Omit<Route, "method">;
  const rows: Route[] = [
    { ...row, method: "get" },
    { ...row, method: "post" },
    { ...row, method: "get", path: "/wide", handle: async () => ({ status: 200, body: WIDE_ANSWER }) },
  ];
  const parts = { client, auth, clock: systemClock, webhookReach: "public" as const, logger: undefined };
  const threads = agentProtocol();
  const app = express().use(routerOf(rows, parts));
  app.use(threads.path, auth.require("spawn"), threads.handler(parts));
  return listenUntilEnd(createServer(app));
}

async function askUnread(url: string): Promise<Socket> {
  const socket = await slowClient(url, "GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  return socket.pause();
}

test("what one tenant's clients do not read is bounded; a change is told all the same; who leaves makes room", async () => {
  const origin = await startLargeAnswers();
  const url = `${origin}/large`;
  const threads = () => fetch(`${origin}/agent-protocol/ok`);
  expect((await threads()).status).toBe(200);
  const headOf = async (method: string) => {
    const leaving = new AbortController();
    const { status } = await fetch(url, { method, signal: leaving.signal });
    leaving.abort();
    return status;
  };
  const clients: Socket[] = [];
  await until(async () => {
    clients.push(await askUnread(url));
    return (await headOf("HEAD")) === 429;
  });
  expect(clients.length).toBeGreaterThanOrEqual(MOST_UNREAD);
  const refused = (await (await fetch(url)).json()) as { detail: string };
  expect(refused).toMatchObject({ code: "rate_limited", retryable: true });
  expect(refused.detail).toContain("Answers that this tenant's clients have not read");
  expect(await headOf("POST")).toBe(200);
  expect((await threads()).status).toBe(429);
  for (const each of clients) each.destroy();
  await until(async () => (await headOf("HEAD")) === 200);
});

test("what a tenant's clients do not read is counted in bytes, not in characters", async () => {
  expect((await fetch(`${await startLargeAnswers()}/wide`)).status).toBe(429);
});
