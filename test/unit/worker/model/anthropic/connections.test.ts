import { createServer } from "node:http";
import type { Socket } from "node:net";
import { Client } from "undici";
import { expect, test } from "vitest";
import { Connections } from "../../../../../src/worker/model/anthropic/connections.ts";
import { createAnthropicModel } from "../../../../../src/worker/model/anthropic/model.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";
import { listenUntilEnd } from "../../../../helpers/listen.ts";
import { until } from "../../../../helpers/until.ts";

test("an unused connection is kept no longer because its server offers ten minutes", async () => {
  const sockets: Socket[] = [];
  const server = createServer((_request, response) => {
    response.writeHead(200, { Connection: "keep-alive", "Keep-Alive": "timeout=600" }).end("{}");
  });
  server.keepAliveTimeout = 0;
  server.on("connection", (socket) => sockets.push(socket));
  const connections = new Connections(await listenUntilEnd(server), { keepAliveMs: 1_000 });
  closeAtEnd(() => connections.close());
  const client = await new Promise<Client>((resolve) => void connections.take(resolve));
  const { body } = await client.request({ path: "/", method: "POST" });
  await body.dump();
  connections.release(client);
  expect(sockets).toHaveLength(1);
  await until(() => sockets[0]?.destroyed, { timeoutMs: 30_000 });
});

test("a runtime that replaces undici is refused at once, before a run is claimed that could make no call", () => {
  // Bun's stand-in for undici has a Client without this method.
  Object.defineProperty(Client.prototype, "destroy", { value: undefined, configurable: true });
  closeAtEnd(() => void Reflect.deleteProperty(Client.prototype, "destroy"));
  expect(() => createAnthropicModel({ apiKey: "sk-test-0123456789" })).toThrow(/run workers with node/);
});
