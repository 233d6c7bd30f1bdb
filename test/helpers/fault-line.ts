/**
 * A TCP proxy to Redis with faults at single commands; afterwards it works as before. `crash-line.ts` goes dead instead.
 *
 * Owns: the connections through it.
 *
 * 1. A command is never split. `cut before`: Redis gets no byte of it. `cut after`: Redis performs it, and its answer is lost. Both
 *    end that connection only, so the client connects again.
 * 2. `refused`: Redis answers that it has no memory left, and does nothing. The answers around it stay in order.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { closeAtEnd } from "./cleanup.ts";
import { commandReader } from "./redis-commands.ts";

/** What happens to a command. */
export type CommandFault = "passes" | "cut before" | "cut after" | "refused";

/** The words of Redis when its memory is full. */
export const NO_MEMORY = "OOM command not allowed when used memory > 'maxmemory'.";

/** Opens a line to `targetPort`; returns its URL. Calls `decide` once per command, in order. The test's end closes the line. */
export async function openFaultLine(
  targetPort: number,
  decide: (words: readonly string[]) => CommandFault,
): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ port: targetPort, host: "127.0.0.1", noDelay: true });
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on("close", () => sockets.delete(socket));
    }
    join(client, upstream, decide);
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

const bulk = (words: readonly string[]) =>
  `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`;
const REFUSAL = bulk(["EVAL", `return redis.error_reply("${NO_MEMORY}")`, "0"]);

function join(client: Socket, upstream: Socket, decide: (words: readonly string[]) => CommandFault): void {
  const read = commandReader();
  let isCut = false;
  let heard = "";
  // Redis performs commands in order: when it echoes this word, the command before it is done.
  const word = randomBytes(12).toString("hex");
  const cut = () => {
    client.resetAndDestroy();
    upstream.destroy();
  };
  client.on("data", (chunk: Buffer) => {
    if (isCut) return;
    for (const { words, bytes } of read(chunk)) {
      const fault = decide(words);
      if (fault === "refused") upstream.write(REFUSAL);
      else if (fault !== "cut before") upstream.write(bytes);
      if (fault === "passes" || fault === "refused") continue;
      isCut = true;
      if (fault === "cut before") return cut();
      upstream.write(bulk(["ECHO", word]));
      return;
    }
  });
  upstream.on("data", (chunk: Buffer) => {
    if (!isCut) return void client.write(chunk);
    heard = heard.slice(-2 * word.length) + chunk.toString("latin1");
    if (heard.includes(word)) cut();
  });
  for (const [socket, other] of [
    [client, upstream],
    [upstream, client],
  ] as const) {
    socket.on("error", () => {});
    socket.on("close", () => other.destroy());
  }
}
