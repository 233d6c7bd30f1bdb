/**
 * One call of a script as it travels: the bytes of the command are put together here, once, from the words that a run says
 * with every call and those of this one. ioredis flattens, checks and measures every argument of a command of its own, which
 * costs more than all the rest of a commit.
 *
 * 1. A connection gets the source with the first call of a script, and its digest from then on.
 * 2. A server that has forgotten the script (restarted, flushed, a new master) is sent the call once more, with the source.
 */
import { createHash } from "node:crypto";
import { Command } from "ioredis";
import { gatherWrites, type RedisClient } from "./connection/connection.ts";

/** A word of a command as it is sent, a bulk string: its length in bytes, then itself. */
export function bulkOf(text: string): string {
  return text === "" ? EMPTY_BULK : `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
}

const EMPTY_BULK = "$0\r\n\r\n";

/** A script by its source. */
export class Script {
  readonly digest: string;
  readonly #byDigest: string;
  readonly #bySource: string;
  /** Sockets over which the source was sent. */
  readonly #known = new WeakSet<object>();

  constructor(source: string) {
    this.digest = createHash("sha1").update(source).digest("hex");
    this.#byDigest = bulkOf("evalsha") + bulkOf(this.digest);
    this.#bySource = bulkOf("eval") + bulkOf(source);
  }

  /**
   * Calls it. `words`: the number of keys, the keys and the arguments, `count` of them, each as {@link bulkOf} writes it;
   * `key`: one of the keys, by which a cluster finds the node. Rejects as ioredis does.
   */
  async call(redis: RedisClient, words: string, count: number, key: string): Promise<unknown> {
    const call = new ScriptCommand(this, words, count, key);
    gatherWrites(redis);
    try {
      return await redis.sendCommand(call);
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw error;
      if (call.socket) this.#known.delete(call.socket);
      return redis.sendCommand(new ScriptCommand(this, words, count, key));
    }
  }

  /** The first words of a call over `socket`. */
  openingFor(socket: object): string {
    if (this.#known.has(socket)) return this.#byDigest;
    this.#known.add(socket);
    return this.#bySource;
  }
}

/** Sent over another socket after a reconnect or a redirection, it is put together anew for that one. */
class ScriptCommand extends Command {
  /** Over which it was sent last. */
  socket: object | undefined;
  readonly #script: Script;
  readonly #words: string;
  readonly #count: number;

  constructor(script: Script, words: string, count: number, key: string) {
    // These arguments are never sent: of them ioredis learns the slot of a cluster, and what an error is about.
    super("evalsha", [script.digest, "1", key], UTF8);
    this.#script = script;
    this.#words = words;
    this.#count = count;
  }

  override toWritable(socket: object): string {
    this.socket = socket;
    return `*${this.#count + WORDS_BEFORE}\r\n${this.#script.openingFor(socket)}${this.#words}`;
  }
}

const UTF8 = { replyEncoding: "utf8" } as const;
/** The command's name and the script. */
const WORDS_BEFORE = 2;
