/** Guarantee: a server keeps nothing of the requests that waited on a connection that ended before their turn. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { createHttpServer } from "../../../src/shared/http-server.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { slowClient } from "../../helpers/slow-client.ts";
import { until } from "../../helpers/until.ts";

const MIB = 1_024 * 1_024;

test("clients that send requests ahead and leave take no memory of the server with them", async () => {
  let left = 0;
  const server = createHttpServer({
    who: "The test",
    host: "127.0.0.1",
    port: 0,
    connections: 500,
    requestTimeoutMs: 60_000,
    stopGraceMs: 20,
    answer: (_request, response) => void response.once("close", () => left++),
  });
  await server.start();
  closeAtEnd(() => server.stop());
  const request = `GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${"x".repeat(15_000)}\r\n\r\n`;
  setFlagsFromString("--expose-gc");
  const heapMib = () => {
    runInNewContext("gc")();
    return process.memoryUsage().heapUsed / MIB;
  };
  /** 50 clients with 32 requests that wait, 24 MB in all. */
  const crowd = async () => {
    const before = left;
    const clients = await Promise.all(
      Array.from({ length: 50 }, () => slowClient(server.url, request.repeat(1 + 32))),
    );
    await until(() => clients.every((client) => client.writableLength === 0));
    for (const client of clients) client.destroy();
    await until(() => left === before + 50);
  };
  await crowd();
  const before = heapMib();
  for (let times = 0; times < 3; times++) await crowd();
  expect(heapMib() - before).toBeLessThan(24);
});
