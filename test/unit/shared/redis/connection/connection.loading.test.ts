import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { closeRedis, openRedis } from "../../../../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "../../../../helpers/cleanup.ts";

test("a Redis that loads its data is ready when it says so, however long it thought that it would take", async () => {
  const sockets: Socket[] = [];
  let asked = 0;
  const state = () => {
    asked += 1;
    const info = asked === 1 ? "loading:1\r\nloading_eta_seconds:600\r\n" : "loading:0\r\n";
    return `$${info.length}\r\n${info}\r\n`;
  };
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on("data", (words) => {
      for (const [, command] of String(words).matchAll(/^\*\d+\r\n\$\d+\r\n(\w+)/gm))
        socket.write(command?.toLowerCase() === "info" ? state() : "+OK\r\n");
    });
  }).listen(0, "127.0.0.1");
  closeAtEnd(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  await once(server, "listening");
  const redis = openRedis(`redis://127.0.0.1:${(server.address() as AddressInfo).port}`, "producer");
  closeAtEnd(() => closeRedis(redis));
  await once(redis, "ready");
  // A handshake that takes too long is given up, with its socket.
  expect([asked, sockets.length]).toEqual([2, 1]);
});
