import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { latch } from "./latch.ts";

/** Called for each command that MONITOR reports. `source`: the client's address, or `lua` for a command of a script. */
export type OnCommand = (seconds: string, command: string[], source: string) => void;

/** A MONITOR connection to a Redis. */
export interface Monitor {
  /** Resolves when all commands before this call are reported. Rejects if the connection is closed. */
  caughtUp(): Promise<void>;
  /** Resolves when the server is gone or the monitor is stopped, and all received commands are reported. */
  readonly ended: Promise<void>;
  stop(): void;
}

const LINE = /^\+(\d+\.\d+) \[\d+ ([^\]]+)\] "(.*)"$/s;

/**
 * Reports all commands of a Redis from the moment this resolves until `stop` or the server's death. A test that watches for
 * more than a moment has a server of its own, because the shared one would write down the commands of all tests. It uses a
 * plain socket, because a Redis client would parse the first lines as answers if they arrive together with the OK.
 */
export async function openMonitor(url: string, onCommand: OnCommand): Promise<Monitor> {
  const socket = await open(url);
  socket.setEncoding("latin1");
  let rest = "";
  const confirmed = latch();
  const ended = latch();
  const words = new Map<string, () => void>();
  socket.on("close", () => ended.open());
  socket.on("data", (chunk: string) => {
    const lines = (rest + chunk).split("\r\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "+OK") confirmed.open();
      const [, seconds = "", source = "", text] = LINE.exec(line) ?? [];
      if (text === undefined) continue;
      const command = text.split('" "').map(unescaped);
      onCommand(seconds, command, source);
      if (command.length === 2) words.get(command[1] ?? "")?.();
    }
  });
  const orEnd = async (told: Promise<void>) => {
    const first = await Promise.race([told.then(() => "told"), ended.opened.then(() => "ended")]);
    if (first === "ended") throw new Error(`${url} closed the connection before it told what was awaited`);
  };
  socket.write("MONITOR\r\n");
  await orEnd(confirmed.opened);
  return {
    ended: ended.opened,
    stop: () => socket.destroy(),
    // Redis performs commands in order: when it reports this one, it has reported all before it.
    async caughtUp() {
      const word = randomBytes(12).toString("hex");
      const heard = latch();
      words.set(word, () => heard.open());
      const caller = await open(url);
      try {
        caller.write(`ECHO ${word}\r\n`);
        await orEnd(heard.opened);
      } finally {
        words.delete(word);
        caller.destroy();
      }
    },
  };
}

async function open(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  await once(socket, "connect");
  return socket;
}

const unescaped = (word: string): string => word.replace(/\\"/g, '"');
