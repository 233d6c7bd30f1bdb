import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { text } from "node:stream/consumers";
import { Worker } from "node:worker_threads";
import { beforeAll, expect, test } from "vitest";
import {
  createHttpServer,
  type HttpServer,
  leftClientsKnown,
  stopOf,
  whenSent,
} from "../../../src/shared/http-server.ts";
import { closeAtEnd } from "../../helpers/cleanup.ts";
import { latch } from "../../helpers/latch.ts";
import { slowClient } from "../../helpers/slow-client.ts";
import { until } from "../../helpers/until.ts";

const MOST = 8;

async function serve(more: Partial<Parameters<typeof createHttpServer>[0]> = {}): Promise<HttpServer> {
  const server = createHttpServer({
    who: "The test",
    host: "127.0.0.1",
    port: 0,
    connections: MOST,
    requestTimeoutMs: 60_000,
    stopGraceMs: 20,
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

const slow = (server: HttpServer, text: string): Promise<Socket> => slowClient(server.url, text);

/** The connection is over, be it by a reset: a server that gives up reads no more. */
function closed(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    socket.once("close", () => resolve());
  });
}

/** The ends of clients that are given up after seconds. That time runs while the other tests do. */
const givenUp = { atRest: latch(), inRequest: latch(), inHeaders: latch() };
beforeAll(async () => {
  const begin = async (end: { open(): void }, said: string, requestTimeoutMs: number) => {
    const socket = await slow(await serve({ requestTimeoutMs }), said);
    void closed(socket).then(() => end.open());
  };
  await begin(givenUp.atRest, get("/"), 60_000);
  await begin(givenUp.inRequest, "POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{", 100);
  await begin(givenUp.inHeaders, "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ", 3_600_000);
});

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

test("what is being answered and read is closed for no new client", async () => {
  const server = await serve();
  const held = await Promise.all(
    Array.from({ length: MOST }, () => slow(server, "GET /held HTTP/1.1\r\nHost: x\r\n\r\n")),
  );
  await Promise.all(held.map((socket) => once(socket, "data")));
  await expect(answered(server)).rejects.toThrow();
  expect(held.every((socket) => !socket.closed)).toBe(true);
});

/** More than the buffers of a connection hold; one for all who send it. */
const LONG_BYTES = Buffer.alloc(32 * 1_024 * 1_024, "x");

/** A client that sends `text` and reads nothing of what is answered. */
async function deaf(server: HttpServer, text: string): Promise<Socket> {
  return (await slow(server, text)).pause();
}

test("clients that do not read their answers shut out no other", async () => {
  const open = new Set<ServerResponse>();
  const server = await serve({
    answer: ({ url }, response) => {
      if (url !== "/long") return void response.end("ok");
      open.add(response);
      response.once("close", () => open.delete(response));
      response.end(LONG_BYTES);
    },
  });
  await Promise.all(Array.from({ length: 3 * MOST }, () => deaf(server, get("/long").repeat(2))));
  await until(() => open.size === MOST);
  for (let n = 0; n < 5; n += 1) expect(await answered(server)).toBe(true);
  expect(open.size).toBeLessThan(MOST);
});

/** Writes pieces as long as the client takes them. */
function sendOnAndOn(response: ServerResponse): void {
  const send = () => {
    while (response.write(LONG_BYTES.subarray(0, 65_536)));
    response.once("drain", send);
  };
  send();
}

test("of the clients that do not read on, the one that has read least lately gives way", async () => {
  const responses: ServerResponse[] = [];
  const server = await serve({
    connections: 2,
    answer: ({ url }, response) => {
      if (url !== "/long") return void response.end("ok");
      responses.push(response);
      sendOnAndOn(response);
    },
  });
  const older = await deaf(server, get("/long"));
  const first = await until(() => responses[0]);
  await deaf(server, get("/long"));
  await until(() => responses[1]);
  // The older of the two reads for a while; the other one never does.
  const readOn = once(first, "drain");
  older.resume();
  await readOn;
  older.pause();
  await until(() => first.writableNeedDrain);
  expect(await answered(server)).toBe(true);
  await until(() => responses[1]?.destroyed);
  expect(first.destroyed).toBe(false);
});

test("a client that takes nothing of its answer has as long as for a request; one that is owed its answer has no limit", async () => {
  const [owed, cutOff] = [latch<ServerResponse>(), latch()];
  const server = await serve({
    requestTimeoutMs: 100,
    answer: ({ url }, response) => {
      if (url === "/owed") return owed.open(response);
      response.once("close", cutOff.open);
      response.end(LONG_BYTES);
    },
  });
  const patient = text(await slow(server, get("/owed")));
  const response = await owed.opened;
  await deaf(server, get("/long"));
  // By then the time of the connection that had been silent before is over, too.
  await cutOff.opened;
  response.writeHead(200, { Connection: "close" }).end("late");
  const answer = await patient;
  expect(answer).toContain("200 OK");
  expect(answer).toContain("late");
});

test("an answer that is written to behind its end ends its connection, and nothing else", async () => {
  const server = await serve({
    answer: ({ url }, response) => {
      response.end("ok");
      if (url === "/late") response.write("late");
    },
  });
  const failures: unknown[] = [];
  const note = (error: unknown) => failures.push(error);
  process.prependListener("uncaughtException", note);
  closeAtEnd(() => void process.off("uncaughtException", note));
  const socket = await slow(server, get("/late"));
  await closed(socket);
  expect(await answered(server)).toBe(true);
  expect(failures).toEqual([]);
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

/** A request for `path`, as it goes over the network. */
const get = (path: string, method = "GET") => `${method} ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;

test("requests of one connection are answered one after another, and none begins whose turn never comes", async () => {
  const begun: string[] = [];
  const first = latch<ServerResponse>();
  const server = await serve({
    answer: ({ url = "" }, response) => {
      begun.push(url);
      if (url === "/1") first.open(response);
      else if (url === "/3") response.socket?.destroy();
      else response.end("ok");
    },
  });
  const socket = await slow(server, get("/1") + get("/2") + get("/3") + get("/4"));
  const response = await first.opened;
  expect(await answered(server)).toBe(true);
  expect(begun).toEqual(["/1", "/"]);
  response.end("ok");
  await closed(socket);
  expect(await answered(server)).toBe(true);
  expect(begun).toEqual(["/1", "/", "/2", "/3", "/"]);
});

test("32 requests wait on a connection for the answer before theirs; one more ends it", async () => {
  const begun: string[] = [];
  const first = latch();
  const server = await serve({
    answer: ({ url = "" }, response) => {
      begun.push(url);
      void first.opened.then(() => response.end("ok"));
    },
  });
  const [most, beyond] = ["/most", "/beyond"];
  await slow(server, get(most).repeat(1 + 32));
  await closed(await slow(server, get(beyond).repeat(1 + 33)));
  first.open();
  await until(() => begun.filter((url) => url === most).length === 1 + 32);
  expect(begun.filter((url) => url === beyond)).toHaveLength(1);
});

test("of the requests that wait on their connections, one begins in a round of the event loop", async () => {
  const [CLIENTS, REQUESTS] = [4, 8];
  const begunIn: number[] = [];
  let round = 0;
  const count = () => {
    round += 1;
    if (begunIn.length < CLIENTS * REQUESTS) setImmediate(count);
  };
  count();
  const server = await serve({
    answer: ({ url }, response) => {
      if (url === "/waits") begunIn.push(round);
      response.end("ok");
    },
  });
  for (let i = 0; i < CLIENTS; i += 1) await slow(server, get("/first") + get("/waits").repeat(REQUESTS));
  await until(() => begunIn.length === CLIENTS * REQUESTS);
  expect(new Set(begunIn).size).toBe(CLIENTS * REQUESTS);
});

/** More than the buffers of a connection hold. */
const LONG = "x".repeat(64 * 1_024 * 1_024);

/** Serves `body`; `made` opens when it was given to node, `sent` with whether it has left whole. */
async function serveWatched(status: number, body: string) {
  const [made, sent] = [latch(), latch<boolean>()];
  const server = await serve({
    answer: (_request, response) => {
      whenSent(response, sent.open);
      response.writeHead(status).end(body);
      made.open();
    },
  });
  return { server, made, sent };
}

test.each([
  ["an answer that was read", "GET", 200, true],
  ["the head alone", "HEAD", 200, false],
  ["what the client has already", "GET", 304, false],
  ["a refusal", "GET", 404, false],
])("%s (%s, %d): has left whole: %s", async (_what, method, status, isWhole) => {
  const { server, sent } = await serveWatched(status, "");
  await fetch(server.url, { method });
  expect(await sent.opened).toBe(isWhole);
});

test("an answer whose client goes before its end has not left", async () => {
  const { server, made, sent } = await serveWatched(200, LONG);
  const socket = await slow(server, get("/"));
  socket.pause();
  await made.opened;
  socket.destroy();
  expect(await sent.opened).toBe(false);
});

test("an answer that the stop of its server cuts off has not left", async () => {
  const { server, made, sent } = await serveWatched(200, LONG);
  const socket = await slow(server, get("/"));
  socket.pause();
  await made.opened;
  await server.stop();
  expect(await sent.opened).toBe(false);
});

test.each([
  ["meets a broken connection", "resetAndDestroy", async () => {}],
  ["comes after its client has closed the connection", "destroy", leftClientsKnown],
])("an answer whose last write %s has not left", async (_what, leaves, beforeWrite) => {
  const [begun, broken] = [
    new Int32Array(new SharedArrayBuffer(4)),
    new Int32Array(new SharedArrayBuffer(4)),
  ];
  const sent = latch<boolean>();
  const server = await serve({
    answer: async (_request, response) => {
      whenSent(response, sent.open);
      Atomics.store(begun, 0, 1);
      Atomics.notify(begun, 0);
      // While this thread stands still it does not see the connection break.
      Atomics.wait(broken, 0, 0);
      await beforeWrite();
      response.end("ok");
    },
  });
  const { port } = new URL(server.url);
  const workerData = { port, request: get("/"), leaves, begun, broken };
  const client = new Worker(LEAVING_CLIENT, { eval: true, workerData });
  closeAtEnd(async () => void (await client.terminate()));
  expect(await sent.opened).toBe(false);
});

test("a stop waits no longer than its grace for a request that is not answered", async () => {
  const asked = latch();
  const server = await serve({ answer: () => asked.open() });
  await slow(server, get("/"));
  await asked.opened;
  await server.stop();
});

/** A server that answers each request once `answer` is open, and told its stop. */
async function serveHeld() {
  const [answer, told] = [latch(), latch()];
  const asked: string[] = [];
  const server = await serve({
    stopGraceMs: 60_000,
    answer: (request, response) => {
      asked.push(request.url ?? "");
      stopOf(request).onStop(told.open);
      void answer.opened.then(() => response.end("ok"));
    },
  });
  return { server, answer, told, asked };
}

test("an answer in progress at a stop leaves whole, and ends its connection; no other request begins", async () => {
  const { server, answer, told, asked } = await serveHeld();
  const socket = await slow(server, get("/first") + get("/second"));
  await until(() => asked.length === 1);
  const stopped = server.stop();
  await told.opened;
  await expect(fetch(server.url), "a stopping server takes no connection").rejects.toThrow();
  answer.open();
  const said = await text(socket);
  expect(said).toMatch(/^HTTP\/1\.1 200.*connection: close.*ok/is);
  await stopped;
  expect(asked).toEqual(["/first"]);
});

test("a request whose turn comes after a stop does not begin, and its connection ends", async () => {
  const begun: string[] = [];
  const stopped = latch<Promise<void>>();
  const server = await serve({
    stopGraceMs: 60_000,
    answer: (request, response) => {
      begun.push(request.url ?? "");
      // Behind what the server does when the answer has left, and before the turn of the next request.
      response.once("close", () => process.nextTick(() => stopped.open(server.stop())));
      response.end("ok");
    },
  });
  const socket = await slow(server, get("/first") + get("/second"));
  await closed(socket);
  await stopped.opened;
  expect(begun).toEqual(["/first"]);
});

test.each([
  ["", get("/first")],
  ["; no other request begins", get("/first") + get("/second")],
])("an answer whose head has left before a stop ends its connection at once%s", async (_what, requests) => {
  const [asked, told] = [latch(), latch()];
  const begun: string[] = [];
  const server = await serve({
    stopGraceMs: 60_000,
    answer: (request, response) => {
      begun.push(request.url ?? "");
      response.write("first, ");
      asked.open();
      stopOf(request).onStop(() => response.end("last", told.open));
    },
  });
  const socket = await slow(server, requests);
  await asked.opened;
  const stoppedAt = performance.now();
  const [said] = await Promise.all([text(socket), server.stop()]);
  expect(said).toMatch(/first, .*last/s);
  expect(begun).toEqual(["/first"]);
  // Earlier than a connection at rest is closed.
  expect(performance.now() - stoppedAt).toBeLessThan(4_000);
});

test.each([
  ["says nothing", ""],
  ["has not ended its head", "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "],
  ["is at rest", get("/")],
])("a stop closes a connection that %s at once", async (_what, said) => {
  const server = await serve({ stopGraceMs: 60_000 });
  const socket = await slow(server, said);
  if (said.endsWith("\r\n\r\n")) await once(socket, "data");
  socket.resume();
  await Promise.all([closed(socket), server.stop()]);
});

test("a connection at rest is closed", () => givenUp.atRest.opened);

test("a request that takes longer than its time ends its connection", () => givenUp.inRequest.opened);

test("headers have less time than their request", () => givenUp.inHeaders.opened);

const LEAVING_CLIENT = `
  const { port, request, leaves, begun, broken } = require("node:worker_threads").workerData;
  const socket = require("node:net").connect(port, "127.0.0.1", () =>
    socket.write(request, () => {
      Atomics.wait(begun, 0, 0);
      socket[leaves]();
      Atomics.store(broken, 0, 1);
      Atomics.notify(broken, 0);
    }));
`;

test("an empty address is refused: it would be every address of the machine", async () => {
  await expect(serve({ host: "" })).rejects.toThrow(
    "The test has no address to listen on: name one, e.g. 127.0.0.1.",
  );
});
