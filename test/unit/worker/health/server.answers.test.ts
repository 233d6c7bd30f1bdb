/** What a supervisor reads from the health port. */
import { expect, onTestFinished, test } from "vitest";
import { createHealthServer } from "../../../../src/worker/health/server.ts";

const PAUSED = { ready: false, redis: "ready" as const, reasons: ["the installation is paused"] };

/** The port of a worker that is paused and counts nothing yet. */
async function served(): Promise<string> {
  const worker = { readiness: async () => PAUSED, metrics: async () => undefined };
  const server = createHealthServer({ worker, host: "127.0.0.1", port: 0 });
  await server.start();
  onTestFinished(() => server.stop());
  return server.url;
}

test("a worker whose Redis is well and that takes no work is not ready, whatever the query, and no cache keeps that", async () => {
  const answer = await fetch(`${await served()}/readyz?verbose=1`);
  expect([answer.status, answer.headers.get("cache-control")]).toEqual([503, "no-store"]);
  expect(await answer.json()).toEqual(PAUSED);
});

test("metrics of a worker that has not started are none to be stored", async () => {
  expect((await fetch(`${await served()}/metrics`)).status).toBe(503);
});

test("HEAD is answered like GET, without a body; another method is refused on a connection that ends", async () => {
  const url = await served();
  const head = await fetch(`${url}/healthz`, { method: "HEAD" });
  expect([head.status, await head.text()]).toEqual([200, ""]);
  const post = await fetch(`${url}/healthz`, { method: "POST", body: "x" });
  expect([post.status, post.headers.get("connection")]).toEqual([405, "close"]);
});
