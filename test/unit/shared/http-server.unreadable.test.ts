/** Guarantee: bytes that are no request are refused, but never in place of an answer that the client waits for. */
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { createHttpServer } from "../../../src/shared/http-server.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { latch } from "../../helpers/latch.ts";

/** Returns a client of a server that answers nothing by itself, with what it reads until its end, and the server's first request. */
async function visit() {
  const begun = latch();
  const server = createHttpServer({
    who: "The test",
    host: "127.0.0.1",
    port: 0,
    connections: 8,
    requestTimeoutMs: 60_000,
    stopGraceMs: 20,
    answer: () => begun.open(),
  });
  await server.start();
  const { hostname, port } = new URL(server.url);
  const socket = connect(Number(port), hostname);
  closeAtEnd(() => {
    socket.destroy();
    return server.stop();
  });
  return { socket, answer: text(socket), begun: begun.opened };
}

test("a client that waits for its answer reads no refusal of what it sent behind its request", async () => {
  const { socket, answer, begun } = await visit();
  socket.write("POST /spawn HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
  await begun;
  socket.write("xx");
  expect(await answer).toBe("");
});

test.each([
  ["no request", "xx\r\n\r\n", "HTTP/1.1 400 Bad Request"],
  [
    "a head of 20 KB",
    `GET / HTTP/1.1\r\nHost: ${"x".repeat(20_000)}\r\n\r\n`,
    "HTTP/1.1 431 Request Header Fields Too Large",
  ],
  [
    "a body in broken chunks",
    "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nx",
    "HTTP/1.1 400 Bad Request",
  ],
])("%s is refused", async (_what, sent, status) => {
  const { socket, answer } = await visit();
  socket.write(sent);
  expect(await answer).toBe(`${status}\r\nConnection: close\r\n\r\n`);
});
