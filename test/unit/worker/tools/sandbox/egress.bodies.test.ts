/** Guarantee: the proxy of a command passes bodies on whole or not at all, and neither names nor waits without bound. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { type IncomingHttpHeaders, request } from "node:http";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import {
  type EgressLimits,
  openEgress,
  SOCKET_NAME,
} from "../../../../../src/worker/tools/sandbox/egress.ts";
import { type EgressPolicy, parseEgress } from "../../../../../src/worker/tools/sandbox/egress-policy.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { latch } from "../../../../helpers/latch.ts";
import { until } from "../../../../helpers/until.ts";

/** A server on 127.0.0.1 that gets the first bytes of each connection. */
async function site(answer: (socket: Socket, asked: string) => void): Promise<number> {
  const server = createServer((socket) => {
    socket.on("error", () => undefined).once("data", (bytes) => answer(socket, bytes.toString("latin1")));
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  closeAtEnd(() => void server.close());
  return (server.address() as AddressInfo).port;
}

type Resolve = NonNullable<EgressPolicy["resolve"]>;
const never: Resolve = () => new Promise(() => undefined);

async function proxy(hosts: string, limits: Partial<EgressLimits> = {}, resolve = never) {
  const policy = parseEgress(hosts, "127.0.0.1");
  if ("problem" in policy) throw new TypeError(policy.problem);
  const egress = await openEgress({ ...policy, resolve }, limits);
  closeAtEnd(async () => void (await egress.close()));
  const socketPath = join(egress.directory, SOCKET_NAME);
  const ask = (path: string, headers: Record<string, string> = {}) =>
    new Promise<{ status: number; text: string; headers: IncomingHttpHeaders }>((resolve, reject) => {
      const asking = request({ socketPath, path, headers }, (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("data", (part: string) => {
          text += part;
        });
        answer.once("error", reject);
        answer.once("end", () => resolve({ status: answer.statusCode ?? 0, text, headers: answer.headers }));
      });
      asking.once("error", reject).end();
    });
  return { egress, ask, socketPath };
}

const CHUNKED = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";

it("a body that its site breaks off is no whole body for the command", async () => {
  const port = await site((socket) => {
    socket.write(`${CHUNKED}5\r\nhello\r\n`, () => setImmediate(() => socket.destroy()));
  });
  const { ask } = await proxy(`127.0.0.1:${port}`);
  await expect(ask(`http://127.0.0.1:${port}/`)).rejects.toThrow(/aborted|hang up|ECONNRESET/);
});

it("a site has longer for its answer than for its connection", async () => {
  const [asked, answered] = [latch(), latch()];
  const port = await site(async (socket) => {
    asked.open();
    await answered.opened;
    socket.end("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
  });
  const { ask } = await proxy(`127.0.0.1:${port},silent.test`, { connectMs: 100 });
  const answer = ask(`http://127.0.0.1:${port}/`);
  await asked.opened;
  // Its time limit begins after the other connection was made: that one's is over, too.
  expect(await ask("http://silent.test/")).toMatchObject({ status: 504 });
  answered.open();
  expect(await answer).toMatchObject({ status: 204 });
});

it("headers of one connection go no further, in either direction", async () => {
  const port = await site((socket, asked) => {
    const body = JSON.stringify(asked);
    socket.end(
      `HTTP/1.1 200 OK\r\nconnection: close, x-hop\r\nx-hop: 1\r\nx-end: 2\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
  });
  const { ask } = await proxy(`127.0.0.1:${port}`);
  const { text, headers } = await ask(`http://127.0.0.1:${port}/`, {
    connection: "close, X-Mine",
    "x-mine": "1",
    "x-whole": "2",
  });
  expect(text).toContain("x-whole: 2");
  expect(text).not.toContain("x-mine: 1");
  expect(headers).toMatchObject({ "x-end": "2" });
  expect(headers).not.toHaveProperty("x-hop");
});

it("a tunnel that waits for a name connects to no site once its command is over", async () => {
  const [connected, asked, named] = [[] as Socket[], latch(), latch()];
  const server = createServer((socket) => void connected.push(socket.on("error", () => undefined)));
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  closeAtEnd(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const { egress, socketPath } = await proxy(`named.test:${port}`, {}, async () => {
    asked.open();
    await named.opened;
    return [{ address: "127.0.0.1", family: 4 }];
  });
  const client = connect(socketPath).on("error", () => undefined);
  client.write(`CONNECT named.test:${port} HTTP/1.1\r\n\r\n`);
  await asked.opened;
  await egress.close();
  named.open();
  await new Promise(setImmediate);
  // It begins later than the tunnel's would, and so is accepted later.
  const ours = connect(port, "127.0.0.1");
  closeAtEnd(() => void ours.destroy());
  await until(() => connected.some(({ remotePort }) => remotePort === ours.localPort));
  expect(connected).toHaveLength(1);
});

it("a client that is gone before its tunnel is refused ends no worker", async () => {
  const failures: unknown[] = [];
  const note = (failure: unknown) => void failures.push(failure);
  process.on("uncaughtException", note);
  closeAtEnd(() => void process.off("uncaughtException", note));
  const { socketPath, ask } = await proxy("listed.test");
  for (let n = 0; n < 20; n++) {
    const client = connect(socketPath).on("error", () => undefined);
    client.write("CONNECT other.test:80 HTTP/1.1\r\n\r\n", () => client.destroy());
    await new Promise((resolve) => client.once("close", resolve));
  }
  // The proxy has read all of them when it answers this one.
  expect((await ask("http://other.test/")).status).toBe(403);
  expect(failures).toEqual([]);
});

it("ten refused hosts are named, however many were asked for", async () => {
  const { ask, egress } = await proxy("listed.test");
  for (let n = 0; n < 12; n++) expect((await ask(`http://other-${n}.test/`)).status).toBe(403);
  const { refused, requests } = await egress.close();
  expect(requests).toBe(12);
  expect(refused).toEqual(Array.from({ length: 10 }, (_, n) => `other-${n}.test:80`));
});

it("a proxy whose socket cannot be made says why, and leaves neither a server nor a directory", async () => {
  const base = mkdtempSync(join(tmpdir(), "egress-"));
  closeAtEnd(() => rmSync(base, { recursive: true, force: true }));
  // The path of a socket has 107 bytes at most.
  const temporary = join(base, "d".repeat(100));
  mkdirSync(temporary);
  vi.stubEnv("TMPDIR", temporary);
  await expect(proxy("listed.test")).rejects.toThrow(/too long for a socket: set TMPDIR/);
  vi.unstubAllEnvs();
  expect(readdirSync(temporary)).toEqual([]);
});

it("the highest port is 65535", () => {
  expect(parseEgress("a.test:65535")).not.toHaveProperty("problem");
  expect(parseEgress("a.test:65536")).toHaveProperty("problem");
});

it("the user nobody reaches the socket, also of a worker that keeps new files to itself", async () => {
  const usual = process.umask(0o077);
  closeAtEnd(() => void process.umask(usual));
  const { egress, socketPath } = await proxy("listed.test");
  expect(statSync(egress.directory).mode & 0o777).toBe(0o755);
  expect(statSync(socketPath).mode & 0o777).toBe(0o666);
});
