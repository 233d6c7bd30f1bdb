/**
 * A TCP proxy to Redis that goes dead exactly before or after one command. To Redis this looks like a crash of the client at
 * that moment. The client's process lives on without a connection until its test kills it.
 *
 * Owns: the connections through it. `proxy.ts` has the faults that need no parsing of commands.
 *
 * 1. A command is never split. `before`: Redis gets no byte of it. `after`: Redis performs it, but the client receives
 *    neither its answer nor any later one.
 * 2. A dead line forwards nothing in either direction on any connection, so a client that reconnects is not heard either.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { closeAtEnd } from "./cleanup.ts";
import { latch } from "./latch.ts";
import { commandReader } from "./redis-commands.ts";

/** The decision about a command: forward it, or go dead before or after it. */
export type Fate = "passes" | "before" | "after";

/** See the module's header. */
export interface CrashLine {
  readonly url: string;
  /** Resolves when the line is dead and, with `after`, Redis has performed the command. */
  readonly dead: Promise<void>;
}

/** Opens a line to `targetPort`. Calls `decide` once per command, in order. The test's end closes the line. */
export async function openCrashLine(
  targetPort: number,
  decide: (words: readonly string[]) => Fate,
): Promise<CrashLine> {
  const dead = latch();
  const line: Line = { isDead: false };
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ port: targetPort, host: "127.0.0.1", noDelay: true });
    for (const socket of [client, upstream]) sockets.add(socket);
    join(client, upstream, line, decide, () => dead.open());
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
  return { url: `redis://127.0.0.1:${address.port}`, dead: dead.opened };
}

/** State shared by the connections of a line. */
interface Line {
  isDead: boolean;
}

function join(
  client: Socket,
  upstream: Socket,
  line: Line,
  decide: (words: readonly string[]) => Fate,
  onDead: () => void,
) {
  const read = commandReader();
  let isLast = false;
  let heard = "";
  // Redis performs commands in order: when it echoes this word, the command before it is done.
  const word = randomBytes(12).toString("hex");
  client.on("data", (chunk: Buffer) => {
    if (line.isDead) return;
    for (const { words, bytes } of read(chunk)) {
      const fate = decide(words);
      if (fate !== "before") upstream.write(bytes);
      if (fate === "passes") continue;
      line.isDead = true;
      if (fate === "before") return onDead();
      isLast = true;
      upstream.write(`*2\r\n$4\r\nECHO\r\n$${word.length}\r\n${word}\r\n`);
      return;
    }
  });
  upstream.on("data", (chunk: Buffer) => {
    if (!line.isDead) client.write(chunk);
    if (!isLast) return;
    heard = heard.slice(-2 * word.length) + chunk.toString("latin1");
    if (!heard.includes(word)) return;
    isLast = false;
    onDead();
  });
  for (const [socket, other] of [
    [client, upstream],
    [upstream, client],
  ] as const) {
    socket.on("error", () => {});
    socket.on("close", () => other.destroy());
  }
}
