import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { closeAtEnd } from "./cleanup.ts";

/** A client that sends `text` to the server at `url` and nothing after it; it reads what comes. */
export async function slowClient(url: string, text: string): Promise<Socket> {
  const { port, hostname } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  closeAtEnd(() => void socket.destroy());
  await once(socket, "connect");
  socket.resume();
  socket.write(text);
  return socket;
}
