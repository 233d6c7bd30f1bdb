/**
 * A TCP proxy to Redis with faults at single commands; afterwards it works as before. `crash-line.ts` goes dead instead.
 *
 * 1. A command is never split. `cut before`: Redis gets no byte of it. `cut after`: Redis performs it, and its answer is lost. Both
 *    end that connection only, so the client connects again.
 * 2. `refused`: Redis answers that it has no memory left, and does nothing. The answers around it stay in order.
 */
import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { commandBytes, commandReader } from "./redis-commands.ts";
import { openRedisLine } from "./redis-line.ts";
import { resetSocket } from "./reset-socket.ts";

/** What happens to a command. */
export type CommandFault = "passes" | "cut before" | "cut after" | "refused";

/** The words of Redis when its memory is full. */
export const NO_MEMORY = "OOM command not allowed when used memory > 'maxmemory'.";

/** Opens a line to `targetPort`; returns its URL. Calls `decide` once per command, in order. The test's end closes the line. */
export function openFaultLine(
  targetPort: number,
  decide: (words: readonly string[]) => CommandFault,
): Promise<string> {
  return openRedisLine(targetPort, (client, upstream) => join(client, upstream, decide));
}

const REFUSAL = commandBytes(["EVAL", `return redis.error_reply("${NO_MEMORY}")`, "0"]);

function join(client: Socket, upstream: Socket, decide: (words: readonly string[]) => CommandFault): void {
  const read = commandReader();
  let isCut = false;
  let heard = "";
  // Redis performs commands in order: when it echoes this word, the command before it is done.
  const word = randomBytes(12).toString("hex");
  const cut = () => {
    resetSocket(client);
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
      upstream.write(commandBytes(["ECHO", word]));
      return;
    }
  });
  upstream.on("data", (chunk: Buffer) => {
    if (!isCut) return void client.write(chunk);
    heard = heard.slice(-2 * word.length) + chunk.toString("latin1");
    if (heard.includes(word)) cut();
  });
}
