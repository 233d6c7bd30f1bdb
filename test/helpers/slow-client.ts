import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { closeAtEnd } from "./cleanup.ts";

/** Opens a client that sends `text` to the server at `url` and then nothing more. It reads and discards the answer. */
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
