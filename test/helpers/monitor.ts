import { once } from "node:events";
import { connect } from "node:net";

/** One command as Redis tells it; `source` is the address of its client, or `lua` for what a script does. */
export type OnCommand = (seconds: string, command: string[], source: string) => void;

const LINE = /^\+(\d+\.\d+) \[\d+ ([^\]]+)\] "(.*)"$/s;

/**
 * Has a Redis tell everything it does, from the moment this resolves until `stop` or its death. A socket of our own: a
 * client that expects answers takes the first lines for some, when they come together with the OK.
 */
export async function openMonitor(url: string, onCommand: OnCommand): Promise<{ stop(): void }> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  await once(socket, "connect");
  socket.setEncoding("latin1");
  let rest = "";
  let confirm: () => void = () => {};
  const confirmed = new Promise<void>((resolve, reject) => {
    confirm = resolve;
    socket.on("close", () => reject(new Error(`${url} closed the connection before it told anything`)));
  });
  socket.on("data", (chunk: string) => {
    const lines = (rest + chunk).split("\r\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "+OK") confirm();
      const [, seconds = "", source = "", words] = LINE.exec(line) ?? [];
      if (words !== undefined) onCommand(seconds, words.split('" "').map(unescaped), source);
    }
  });
  socket.write("MONITOR\r\n");
  await confirmed;
  return { stop: () => socket.destroy() };
}

const unescaped = (word: string): string => word.replace(/\\"/g, '"');
