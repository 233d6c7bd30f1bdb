/**
 * A connection to one server; it handles the cases that ioredis leaves open.
 *
 * 1. A handshake that Redis leaves unanswered is given up, so a frozen or cut-off server cannot hold a connection.
 * 2. A connection whose database is refused never becomes ready: it would work on another one.
 * 3. A connection whose server has become a read-only replica looks for another server, once a second, and re-sends refused
 *    commands there. With `reconnectOnError: null` the refusal is the answer.
 * 4. When a connection is closed for good, all unanswered commands are rejected.
 * 5. Commands of one turn of the event loop leave in one write; pipelines and transactions write by themselves.
 * 6. All this also holds for duplicates, which BullMQ makes for itself.
 * 7. Nothing is written to the console, where a worker's log has lines of JSON: a password that the server does not ask for
 *    is the event {@link UNNEEDED_PASSWORD}, a user without INFO {@link NO_READY_CHECK}. Nodes of a cluster tell the same.
 *    BullMQ's warning about evictions is left to the log ({@link hidePolicy}).
 * 8. A connection gets the source of a script with its first call, and its digest from then on.
 * 9. If a server has forgotten the script (restarted, flushed, a new master), the call is sent once more, with the source.
 */
import { createHash } from "node:crypto";
import { type Cluster, Command, Redis, type RedisOptions } from "ioredis";
import { z } from "zod";
import type { Clock } from "../../clock.ts";
import { keptForV8 } from "../../hidden-class.ts";

const HANDSHAKE_MS = 5_000;
const LONGEST_RETRY_MS = 1_000;
/** A server that loads its data is asked this often whether it is done. ioredis would believe its estimate, up to 10 s. */
const LOADING_RETRY_MS = 500;

/** Returns the time before the nth attempt to connect, ms. */
export function retryMs(times: number): number {
  return Math.min(50 * 2 ** Math.min(times, 10), LONGEST_RETRY_MS);
}

/** Error of a database that the server does not have, or that this user may not use. */
export const WRONG_DATABASE = /\bDB index\b|SELECT is not allowed/;

/** Event of a server that needs no password and accepts anyone as this user; the connection works. */
export const UNNEEDED_PASSWORD = "unneededPassword";
/** Event of a server whose user may not run INFO, or that has renamed it: it counts as ready, even while it still loads its data. */
export const NO_READY_CHECK = "noReadyCheck";
/** Event of a connection that leaves a read-only replica, with what the replica said; it looks for a server that takes writes. */
export const READ_ONLY = "readOnly";
const HAS_NO_INFO = /NOPERM|unknown command/;
const NEEDS_NO_PASSWORD = /no password is set|without any password configured for the default user/;

/** See the module's header. */
export class ServerConnection extends Redis {
  readonly #clock: Clock;
  readonly #endHandshake: () => void;
  /** The last command of each class; `hidden-class.ts` gives the reason. BullMQ has a class for each of its scripts. */
  readonly #lastOfClass = new Map<unknown, Command>();

  /** `beforeRetry` is called before each reconnect. */
  constructor(clock: Clock, options: RedisOptions, beforeRetry: (redis: Redis) => void = () => {}) {
    let isReadOnly = false;
    const retryStrategy = (times: number): number => {
      const delayMs = isReadOnly ? LONGEST_RETRY_MS : retryMs(times);
      isReadOnly = false;
      beforeRetry(this);
      return delayMs;
    };
    const askAgain = (error: Error) => {
      if (!error.message.startsWith("READONLY")) return false;
      isReadOnly = true;
      this.emit(READ_ONLY, error);
      return 2;
    };
    const reconnectOnError = options.reconnectOnError === null ? null : askAgain;
    super({ ...options, retryStrategy, reconnectOnError, maxLoadingRetryTime: LOADING_RETRY_MS });
    this.#clock = clock;
    this.#endHandshake = limitHandshake(this, clock);
    this.on("end", () => rejectUnanswered(this));
    keepOffConsole(this);
    this.on("error", (error: Error) => {
      if (WRONG_DATABASE.test(error.message)) dropConnection(this);
    });
  }

  /** Reconnects once per socket, because every command that a replica refuses asks for it again. */
  override disconnect(reconnect = false): void {
    if (!reconnect) this.#endHandshake();
    if (!reconnect || !this.stream?.writableEnded) super.disconnect(reconnect);
  }

  override sendCommand(command: Command, stream?: Parameters<Redis["sendCommand"]>[1]): unknown {
    this.#lastOfClass.set(Reflect.getPrototypeOf(command), command);
    if (!stream) gatherWrites(this);
    return super.sendCommand(command, stream);
  }

  override duplicate(override?: Partial<RedisOptions>): Redis {
    return new ServerConnection(this.#clock, { ...this.options, ...override });
  }
}

type Said = (error?: Error | null, answer?: string) => void;

/** The INFO of each server when its connection last became ready. */
const readyAnswers = new WeakMap<Redis, string>();

/** Returns the INFO with which a ready connection was checked; undefined: it is not ready, or its user may not run INFO. */
export function readyAnswerOf(redis: Redis): string | undefined {
  return redis.status === "ready" ? readyAnswers.get(redis) : undefined;
}

/** Replaces ioredis' own handlers of two answers, which only write to the console; `told` emits the events instead. */
export function keepOffConsole(redis: Redis, told: { emit(event: string): unknown } = redis): void {
  const auth = redis.auth as (credentials: unknown, said: Said) => unknown;
  const authenticate = (credentials: unknown, said: Said) =>
    auth.call(redis, credentials, (error) => {
      if (error && NEEDS_NO_PASSWORD.test(error.message)) told.emit(UNNEEDED_PASSWORD);
      else said(error);
    });
  const info = redis.info as (...args: unknown[]) => unknown;
  const readState = (...args: unknown[]) => {
    const [said] = args as [Said | undefined];
    // Only ioredis' ready check asks with a callback and without a section.
    if (typeof said !== "function") return info.apply(redis, args);
    return info.call(redis, (error: Error | null, answer: string) => {
      if (error) readyAnswers.delete(redis);
      else readyAnswers.set(redis, answer);
      if (!error || !HAS_NO_INFO.test(error.message)) return said(error, answer);
      told.emit(NO_READY_CHECK);
      said(null, "");
    });
  };
  Object.assign(redis, { auth: authenticate, info: readState });
  hidePolicy(redis);
}

/**
 * Takes the eviction policy out of the answer to an INFO without arguments. Only BullMQ asks so, and writes a warning about the
 * policy to the console. `server-check.ts`, which names a section, has it in the log.
 */
export function hidePolicy(redis: Redis | Cluster): void {
  const info = redis.info as (...args: unknown[]) => Promise<unknown>;
  const readInfo = (...args: unknown[]) => {
    const answer = info.apply(redis, args);
    if (args.length > 0) return answer;
    return answer.then((text) => String(text).replace(/^maxmemory_policy:.*$/m, ""));
  };
  Object.assign(redis, { info: readInfo });
}

const gathering = new WeakSet<object>();

/**
 * Joins all commands of this turn of the event loop into one write: a write of its own costs as much as all the rest of a
 * commit. A cluster's connections write by themselves.
 */
function gatherWrites({ status, stream }: Redis): void {
  if (status !== "ready" || !stream.writable || gathering.has(stream)) return;
  gathering.add(stream);
  stream.cork();
  const flush = setImmediate(() => {
    gathering.delete(stream);
    stream.uncork();
  });
  keptForV8.flush = flush;
}

/**
 * A script, made from its source. Its calls have their bytes already: ioredis would flatten, check and measure every argument,
 * which costs more than all the rest of a commit.
 */
export class Script {
  readonly digest: string;
  readonly #byDigest: string;
  readonly #bySource: string;
  /** Sockets over which the source was sent. */
  readonly #known = new WeakSet<object>();

  constructor(source: string) {
    this.digest = createHash("sha1").update(source).digest("hex");
    this.#byDigest = `$7\r\nevalsha\r\n$${this.digest.length}\r\n${this.digest}\r\n`;
    this.#bySource = `$4\r\neval\r\n$${Buffer.byteLength(source)}\r\n${source}\r\n`;
  }

  /**
   * Calls the script. `bulks`: the number of keys, the keys and the arguments, `count` words in all. `key`: one of the keys,
   * by which a cluster finds the node. Rejects as ioredis does.
   */
  async call(redis: Pick<Redis, "sendCommand">, bulks: string, count: number, key: string): Promise<unknown> {
    const call = new ScriptCommand(this, bulks, count, key);
    try {
      return await redis.sendCommand(call);
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw error;
      if (call.socket) this.#known.delete(call.socket);
      return redis.sendCommand(new ScriptCommand(this, bulks, count, key));
    }
  }

  /** Returns the first words of a call over `socket`. */
  openingFor(socket: object): string {
    if (this.#known.has(socket)) return this.#byDigest;
    this.#known.add(socket);
    return this.#bySource;
  }
}

/** The command of one call. After a reconnect or a redirection it is built again for the new socket. */
class ScriptCommand extends Command {
  /** The socket over which it was sent last. */
  socket: object | undefined;
  readonly #script: Script;
  readonly #bulks: string;
  readonly #count: number;

  constructor(script: Script, bulks: string, count: number, key: string) {
    // These arguments are never sent: ioredis derives the cluster slot and the subject of an error from them.
    super("evalsha", [script.digest, "1", key], UTF8);
    this.#script = script;
    this.#bulks = bulks;
    this.#count = count;
    keptForV8.command = this;
  }

  override toWritable(socket: object): string {
    this.socket = socket;
    return `*${this.#count + WORDS_BEFORE}\r\n${this.#script.openingFor(socket)}${this.#bulks}`;
  }
}

const UTF8 = { replyEncoding: "utf8" } as const;
/** Words before `bulks`: the command's name and the script. */
const WORDS_BEFORE = 2;

/** Drops the socket if its handshake is not over in time. The returned function cancels that for the current handshake. */
export function limitHandshake(redis: Redis, clock: Clock): () => void {
  let handshake: { cancel(): void } | undefined;
  const over = () => handshake?.cancel();
  redis.on("connect", () => {
    over();
    handshake = clock.timeout(HANDSHAKE_MS, () => dropConnection(redis));
  });
  redis.on("ready", over).on("close", over);
  return over;
}

/**
 * Destroys the socket of a connection that no longer answers, and reconnects it. Does nothing if there is no socket, or if
 * it was dropped already.
 */
export function dropConnection(redis: Redis): void {
  if (redis.status !== "ready" && redis.status !== "connect" && redis.status !== "connecting") return;
  if (redis.stream?.destroyed) return;
  redis.disconnect(true);
  redis.stream?.destroy();
}

/** Rejects commands that were in flight when the connection was lost before: ioredis rejects only waiting ones at its end. */
function rejectUnanswered(redis: Redis): void {
  const inFlight = CommandsInFlight.safeParse(Reflect.get(redis, "prevCommandQueue")).data;
  for (let next = inFlight?.shift(); next !== undefined; next = inFlight?.shift()) {
    next.command.reject(connectionLost());
  }
}

/** Makes the error that ioredis gives a command whose connection ended before its answer. */
export function connectionLost(): Error {
  return new Error("Connection is closed.");
}

/** ioredis' queue of commands that were in flight when a connection was lost. */
const CommandsInFlight = z.custom<{ shift(): { command: { reject(error: Error): void } } | undefined }>(
  (value) => typeof value === "object" && value !== null && "shift" in value,
);
