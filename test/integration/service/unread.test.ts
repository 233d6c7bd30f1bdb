/** Answers that a tenant's clients do not read: how many this process holds, and which it never refuses. */
import { createServer } from "node:http";
import type { Socket } from "node:net";
import express from "express";
import { expect, test } from "vitest";
import { z } from "zod";
import { internalsOf } from "../../../src/producer/client.ts";
import { createAuth } from "../../../src/service/api/auth.ts";
import { type Route, routerOf } from "../../../src/service/api/route.ts";
import { systemClock } from "../../../src/shared/clock.ts";
import { listenUntilEnd } from "../../helpers/listen.ts";
import { slowClient } from "../../helpers/slow-client.ts";
import { until } from "../../helpers/until.ts";
import { openStage } from "../../stage/stage.ts";

/** So long that no network takes the answer from a client that does not read it. */
const ANSWER = "x".repeat(30_000_000);
/** Such answers that a tenant may leave unread. */
const MOST_UNREAD = 4;

/** Serves two routes whose answers are large, one that reads and one that changes something. */
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
  ];
  const parts = { client, auth, clock: systemClock, webhookReach: "public" as const };
  return `${await listenUntilEnd(createServer(express().use(routerOf(rows, parts))))}/large`;
}

async function askUnread(url: string): Promise<Socket> {
  const socket = await slowClient(url, "GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  return socket.pause();
}

test("what one tenant's clients do not read is bounded; a change is told all the same; who leaves makes room", async () => {
  const url = await startLargeAnswers();
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
  for (const each of clients) each.destroy();
  await until(async () => (await headOf("HEAD")) === 200);
});
