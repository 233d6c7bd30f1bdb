/** A TCP listener before a Redis, for proxies with faults at single commands. Owns the connections through it. */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { closeAtEnd } from "./cleanup.ts";

/**
 * Listens before `targetPort`; returns the line's URL. Calls `join` with both ends of each connection, which passes the bytes on. If
 * one end closes, so does the other. The test's end closes the line.
 */
export async function openRedisLine(
  targetPort: number,
  join: (client: Socket, upstream: Socket) => void,
): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ port: targetPort, host: "127.0.0.1", noDelay: true });
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
    join(client, upstream);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closeAtEnd(async () => {
    const closed = once(server, "close");
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("a TCP server without a port");
  return `redis://127.0.0.1:${address.port}`;
}
