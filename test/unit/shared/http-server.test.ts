import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect, test } from "vitest";
import { createHttpServer, type HttpServer } from "../../../src/shared/http-server.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { until } from "../../helpers/until.ts";

const MOST = 8;

async function serve(more: { requestTimeoutMs?: number } = {}): Promise<HttpServer> {
  const server = createHttpServer({
    who: "The test",
    host: "127.0.0.1",
    port: 0,
    connections: MOST,
    requestTimeoutMs: 60_000,
    answer: (request, response) => {
      if (request.url === "/held") response.write("held");
      else response.end("ok");
    },
    ...more,
  });
  await server.start();
  closeAtEnd(() => server.stop());
  return server;
}

/** A client that sends `text` and nothing after it. */
async function slow(server: HttpServer, text: string): Promise<Socket> {
  const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
  socket.on("error", () => {});
  closeAtEnd(() => void socket.destroy());
  await once(socket, "connect");
  socket.resume();
  socket.write(text);
  return socket;
}

async function answered(server: HttpServer): Promise<boolean> {
  const response = await fetch(server.url, { signal: AbortSignal.timeout(2_000) });
  return (await response.text()) === "ok";
}

test.each([
  ["say nothing", ""],
  ["never finish their headers", "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "],
  ["never finish their body", "POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"],
])("three times as many clients as there is room for that %s shut out no other", async (_what, text) => {
  const server = await serve();
  const crowd = await Promise.all(Array.from({ length: 3 * MOST }, () => slow(server, text)));
  for (let n = 0; n < 5; n += 1) expect(await answered(server)).toBe(true);
  await until(() => crowd.filter((socket) => !socket.closed).length <= MOST);
});

test("what is being answered is closed for no new client", async () => {
  const server = await serve();
  const held = await Promise.all(
    Array.from({ length: MOST }, () => slow(server, "GET /held HTTP/1.1\r\nHost: x\r\n\r\n")),
  );
  await Promise.all(held.map((socket) => once(socket, "data")));
  await expect(answered(server)).rejects.toThrow();
  expect(held.every((socket) => !socket.closed)).toBe(true);
});

test("a request that takes longer than its time ends its connection", async () => {
  const server = await serve({ requestTimeoutMs: 100 });
  const socket = await slow(server, "POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{");
  await once(socket, "close");
});

test("headers have less time than their request", async () => {
  const server = await serve({ requestTimeoutMs: 3_600_000 });
  const socket = await slow(server, "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ");
  await once(socket, "close");
});

test("an address that is taken is named", async () => {
  const server = await serve();
  const second = createHttpServer({
    who: "The second",
    host: "127.0.0.1",
    port: Number(new URL(server.url).port),
    connections: MOST,
    requestTimeoutMs: 1_000,
    answer: () => {},
  });
  await expect(second.start()).rejects.toMatchObject({
    code: "setup_failed",
    message: expect.stringMatching(/^The second cannot listen on 127\.0\.0\.1:\d+ .*: choose another/),
  });
});
