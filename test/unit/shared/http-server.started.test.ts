/** Guarantee: a server that is stopped while it starts listens no more. */
import { expect, test } from "vitest";
import { createHttpServer } from "../../../src/shared/http-server.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";

function serverOf() {
  const server = createHttpServer({
    ...{ who: "The test", host: "127.0.0.1", port: 0, connections: 8, requestTimeoutMs: 60_000 },
    answer: (_request, response) => void response.end("ok"),
  });
  closeAtEnd(() => server.stop());
  return server;
}

test("a stop during a start ends what the start has opened; then it can be started again", async () => {
  const server = serverOf();
  const started = server.start();
  await server.stop();
  await started;
  await expect(fetch(server.url)).rejects.toThrow();
  await server.start();
  expect((await fetch(server.url)).status).toBe(200);
});
