/** Guarantee: a connection for which the system has no descriptor or memory ends no server, and no process. */
import { Server } from "node:net";
import { afterEach, expect, test, vi } from "vitest";
import { createOfflineModel } from "../../../src/offline/server.ts";
import { createHttpServer } from "../../../src/shared/http-server.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

const limits = { connections: 10, requestTimeoutMs: 60_000 };
const answer: Parameters<typeof createHttpServer>[0]["answer"] = (_request, response) => response.end("here");

test.each([
  ["a door", () => createHttpServer({ who: "The test", host: "127.0.0.1", port: 0, ...limits, answer })],
  ["the offline model", () => createOfflineModel()],
])("%s goes on", async (_name, create) => {
  const listen = vi.spyOn(Server.prototype, "listen");
  const server = create();
  await server.start();
  closeAtEnd(() => server.stop());
  const [inner] = listen.mock.contexts as Server[];
  // As Node tells of such a connection. Without a listener it throws.
  inner?.emit("error", Object.assign(new Error("accept ENOBUFS"), { code: "ENOBUFS" }));
  expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
});
