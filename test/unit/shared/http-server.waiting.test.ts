/** Guarantee: the requests that wait behind other answers are bounded over all connections, and a modest client keeps its own. */
import { expect, test } from "vitest";
import { createHttpServer } from "../../../src/shared/http-server.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { slowClient } from "../../helpers/slow-client.ts";
import { until } from "../../helpers/until.ts";

const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;

test("requests beyond 4,096 that wait end the connections that have most of them, and nothing else", async () => {
  const begun: string[] = [];
  const held: (() => void)[] = [];
  const server = createHttpServer({
    who: "The test",
    host: "127.0.0.1",
    port: 0,
    connections: 500,
    requestTimeoutMs: 60_000,
    stopGraceMs: 20,
    answer({ url = "" }, response) {
      begun.push(url);
      held.push(() => response.end("ok"));
      if (url === "/second") response.end("ok");
    },
  });
  await server.start();
  closeAtEnd(() => server.stop());
  const modest = await slowClient(server.url, get("/first") + get("/second"));
  const greedy = await Promise.all(
    Array.from({ length: 200 }, () => slowClient(server.url, get("/greedy").repeat(1 + 32))),
  );
  // 4,096 wait: the modest client's one, and 32 of each of 127 others; one more may be in the middle of its requests.
  const open = () => greedy.filter((socket) => !socket.closed).length;
  await until(() => open() <= 128);
  expect(open()).toBeGreaterThanOrEqual(127);
  expect(begun).not.toContain("/second");
  held[0]?.();
  await until(() => begun.includes("/second"));
  expect(modest.closed).toBe(false);
  for (const socket of greedy) socket.destroy();
  // All who waited have left, so there is room again.
  const late = await Promise.all(
    Array.from({ length: 100 }, () => slowClient(server.url, get("/late").repeat(1 + 32))),
  );
  await until(() => begun.filter((url) => url === "/late").length === 100);
  modest.write(get("/third"));
  await until(() => begun.includes("/third"));
  expect(late.filter((socket) => socket.closed)).toEqual([]);
});

test("of a connection that was ended for its many requests none begins any more, also of those that came with them", async () => {
  const begun: string[] = [];
  const server = createHttpServer({
    who: "The test",
    host: "127.0.0.1",
    port: 0,
    connections: 10,
    requestTimeoutMs: 60_000,
    stopGraceMs: 20,
    answer: ({ url = "" }) => void begun.push(url),
  });
  await server.start();
  closeAtEnd(() => server.stop());
  const greedy = await slowClient(server.url, get("/first") + get("/more").repeat(400));
  await until(() => greedy.closed);
  expect(begun).toEqual(["/first"]);
});
