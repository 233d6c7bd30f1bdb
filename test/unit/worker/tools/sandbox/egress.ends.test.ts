/** Guarantee: whatever breaks in the proxy of a command ends there: it leaves nothing, adds nothing, and ends no worker. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer as createSite } from "node:http";
import { type AddressInfo, connect, createServer, Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { openEgress, SOCKET_NAME } from "../../../../../src/worker/tools/sandbox/egress.ts";
import { parseEgress } from "../../../../../src/worker/tools/sandbox/egress-policy.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { until } from "../../../../helpers/until.ts";

async function portOf(server: Server): Promise<number> {
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  closeAtEnd(() => void server.close());
  return (server.address() as AddressInfo).port;
}

async function proxy(hosts: string, limits: Parameters<typeof openEgress>[1] = {}): Promise<string> {
  const policy = parseEgress(hosts, "127.0.0.1");
  if ("problem" in policy) throw new TypeError(policy.problem);
  const egress = await openEgress(policy, limits);
  closeAtEnd(async () => void (await egress.close()));
  return join(egress.directory, SOCKET_NAME);
}

it("a proxy whose directory cannot be made leaves none behind", async () => {
  const base = mkdtempSync(join(tmpdir(), "egress-"));
  closeAtEnd(() => rmSync(base, { recursive: true, force: true }));
  // A path has 4,095 bytes at most: that of the outer directory, 20 more than this one, and not that of the inner one.
  let temporary = base;
  while (temporary.length < 4_074) temporary += `/${"d".repeat(Math.min(200, 4_074 - temporary.length - 1))}`;
  mkdirSync(temporary, { recursive: true });
  vi.stubEnv("TMPDIR", temporary);
  closeAtEnd(() => void vi.unstubAllEnvs());
  await expect(proxy("listed.test")).rejects.toThrow("set TMPDIR");
  expect(readdirSync(temporary)).toEqual([]);
});

it("a proxy that can accept no connection for a while ends no worker", async () => {
  const listen = vi.spyOn(Server.prototype, "listen");
  closeAtEnd(() => void listen.mockRestore());
  await proxy("listed.test");
  const [server] = listen.mock.contexts;
  if (!(server instanceof Server)) throw new TypeError("The proxy has no server.");
  for (let n = 0; n < 2; n++) expect(server.emit("error", new Error("accept EMFILE"))).toBe(true);
});

it("a tunnel that breaks brings its command no bytes but those of its site", async () => {
  let broken: Socket | undefined;
  const port = await portOf(
    createServer((socket) => {
      broken = socket.on("error", () => undefined);
      socket.write("half of i");
    }),
  );
  const client = connect(await proxy(`127.0.0.1:${port}`)).on("error", () => undefined);
  closeAtEnd(() => void client.destroy());
  let got = "";
  client.setEncoding("latin1").on("data", (part: string) => {
    got += part;
  });
  client.write(`CONNECT 127.0.0.1:${port} HTTP/1.1\r\n\r\n`);
  await until(() => got.endsWith("half of i"));
  const closed = new Promise((resolve) => client.once("close", resolve));
  broken?.resetAndDestroy();
  await closed;
  expect(got).toBe("HTTP/1.1 200 Connection Established\r\n\r\nhalf of i");
});

it("a connection whose tunnel was refused after an earlier request is cut when its command says nothing more", async () => {
  const port = await portOf(createSite((_, answer) => void answer.end("hello")));
  const socketPath = await proxy(`127.0.0.1:${port}`, { connections: 1, silenceMs: 200 });
  /** Asks for a page, then on the same connection for a tunnel, and keeps its own side open. */
  const refused = () =>
    new Promise<Socket | undefined>((resolve) => {
      const socket = connect({ path: socketPath, allowHalfOpen: true });
      closeAtEnd(() => void socket.destroy());
      let said = "";
      socket.on("error", () => resolve(undefined)).on("close", () => resolve(undefined));
      socket.on("data", (bytes) => {
        said += bytes;
        if (said.endsWith("hello")) socket.write("CONNECT other.test:80 HTTP/1.1\r\n\r\n");
      });
      socket.on("end", () => resolve(said.includes("HTTP/1.1 403") ? socket : undefined));
      socket.write(`GET http://127.0.0.1:${port}/ HTTP/1.1\r\nhost: x\r\n\r\n`);
    });
  expect(await refused()).toBeDefined();
  // The only place is free again, though the command has not closed its side.
  await until(async () => (await refused()) !== undefined, { timeoutMs: 20_000 });
});
