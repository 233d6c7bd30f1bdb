import { expect, onTestFinished, test } from "vitest";
import { createHealthServer } from "../../../../src/worker/health/server.ts";

test("an answer that fails ends its connection, and not the worker", async () => {
  const broken = () => Promise.reject(new Error("EMFILE: too many open files"));
  const server = createHealthServer({
    worker: { readiness: broken, metrics: broken },
    host: "127.0.0.1",
    port: 0,
  });
  await server.start();
  onTestFinished(() => server.stop());
  await expect(fetch(`${server.url}/metrics`)).rejects.toThrow("fetch failed");
  await expect(fetch(`${server.url}/readyz`)).rejects.toThrow("fetch failed");
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
});
