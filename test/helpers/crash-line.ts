/**
 * A TCP proxy to Redis that goes dead exactly before or after one command. To Redis this looks like a crash of the client at
 * that moment. The client's process lives on without a connection until its test kills it.
 *
 * `proxy.ts` has the faults that need no parsing of commands.
 *
 * 1. A command is never split. `before`: Redis gets no byte of it. `after`: Redis performs it, but the client receives
 *    neither its answer nor any later one.
 * 2. A dead line forwards nothing in either direction on any connection, so a client that reconnects is not heard either.
 */
import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { latch } from "./latch.ts";
import { commandBytes, commandReader } from "./redis-commands.ts";
import { openRedisLine } from "./redis-line.ts";

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
  const url = await openRedisLine(targetPort, (client, upstream) =>
    join(client, upstream, line, decide, () => dead.open()),
  );
  return { url, dead: dead.opened };
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
      upstream.write(commandBytes(["ECHO", word]));
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
}
