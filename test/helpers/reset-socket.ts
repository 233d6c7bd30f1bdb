import type { Socket } from "node:net";

/** Resets a connection. A socket that is shutting down refuses a reset and would stay open forever, so it is destroyed. */
export function resetSocket(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}
