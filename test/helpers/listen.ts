import { once } from "node:events";
import type { Server } from "node:http";
import { closeAtEnd } from "./cleanup.ts";

/** Makes `server` listen on a free port of 127.0.0.1 until the test ends. Resolves to its origin: `http://127.0.0.1:40123`. */
export async function listenUntilEnd(server: Server): Promise<string> {
  closeAtEnd(() => {
    server.close();
    server.closeAllConnections();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return `http://127.0.0.1:${address.port}`;
}
