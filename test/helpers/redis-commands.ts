/** Commands as bytes. The only state is that of a reader: the bytes of an incomplete command. */
import { createHash } from "node:crypto";
import { luaSource, type VerbName } from "../../src/shared/redis/scripts.ts";

/** A command and its bytes. */
export interface RawCommand {
  words: string[];
  bytes: Buffer;
}

const CRLF = Buffer.from("\r\n");

/** Returns the bytes of a command, as a client sends it. */
export function commandBytes(words: readonly string[]): string {
  const parts = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
  return `*${words.length}\r\n${parts.join("")}`;
}

/** Returns a function that takes bytes and returns the complete commands. It throws on input other than arrays of bulk strings. */
export function commandReader(): (chunk: Buffer) => RawCommand[] {
  let pending: Buffer = Buffer.alloc(0);
  return (chunk) => {
    pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
    const commands: RawCommand[] = [];
    for (let command = readCommand(pending); command; command = readCommand(pending)) {
      pending = pending.subarray(command.bytes.length);
      commands.push(command);
    }
    return commands;
  };
}

function readCommand(bytes: Buffer): RawCommand | undefined {
  const head = readNumber(bytes, 0, "*");
  if (!head) return undefined;
  const words: string[] = [];
  let at = head.next;
  while (words.length < head.number) {
    const size = readNumber(bytes, at, "$");
    if (!size || bytes.length < size.next + size.number + CRLF.length) return undefined;
    words.push(bytes.toString("utf8", size.next, size.next + size.number));
    at = size.next + size.number + CRLF.length;
  }
  return { words, bytes: bytes.subarray(0, at) };
}

function readNumber(
  bytes: Buffer,
  at: number,
  mark: "*" | "$",
): { number: number; next: number } | undefined {
  const end = bytes.indexOf(CRLF, at);
  if (end < 0) return undefined;
  if (bytes.toString("latin1", at, at + 1) !== mark)
    throw new Error(`a command does not go on with ${bytes.toString("latin1", at, end)}`);
  return { number: Number(bytes.toString("latin1", at + 1, end)), next: end + CRLF.length };
}

/** Returns a function that tells whether a command calls this script, by its source or its digest. */
export function isCallOf(verb: VerbName): (words: readonly string[]) => boolean {
  const source = luaSource(verb);
  const digest = createHash("sha1").update(source).digest("hex");
  return ([, script]) => script === source || script === digest;
}
