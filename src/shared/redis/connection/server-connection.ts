/**
 * A connection to one server, with what ioredis leaves open.
 *
 * 1. A handshake that Redis leaves unanswered is given up, so a frozen or cut-off server cannot hold a connection.
 * 2. A connection whose database is refused never becomes ready: it would work on another one.
 * 3. One whose server has become a read-only replica looks for another server, once a second; what was refused is put
 *    again there. With `reconnectOnError: null` the refusal is the answer.
 * 4. What waits for an answer when a connection is closed for good is rejected, all of it.
 * 5. Commands of one turn of the event loop leave in one write; pipelines and transactions write by themselves.
 * 6. All this holds for duplicates, which BullMQ makes for itself.
 * 7. Nothing is written to the console, where a worker's log has lines of JSON: a password that its server does not ask for is
 *    the event {@link UNNEEDED_PASSWORD}.
 */
import { type Command, Redis, type RedisOptions } from "ioredis";
import { z } from "zod";
import type { Clock } from "../../clock.ts";
import { lastOf } from "../../hidden-class.ts";

const HANDSHAKE_MS = 5_000;
const LONGEST_RETRY_MS = 1_000;

/** Time before the nth attempt to connect, ms. */
export function retryMs(times: number): number {
  return Math.min(50 * 2 ** Math.min(times, 10), LONGEST_RETRY_MS);
}

/** A database that the server does not have, or that this user may not use. */
export const WRONG_DATABASE = /\bDB index\b|SELECT is not allowed/;

/** The event of a server that would take anyone as this user: it works, and has no password. */
export const UNNEEDED_PASSWORD = "unneededPassword";
const NEEDS_NO_PASSWORD = /no password is set|without any password configured for the default user/;

/** See the module's header. */
export class ServerConnection extends Redis {
  readonly #clock: Clock;
  readonly #endHandshake: () => void;
  /** The last command of each class, for the reason that `hidden-class.ts` gives: BullMQ has a class for each of its scripts. */
  readonly #lastOfClass = new Map<unknown, Command>();

  /** `beforeRetry` is called each time it connects anew. */
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
      return 2;
    };
    const reconnectOnError = options.reconnectOnError === null ? null : askAgain;
    super({ ...options, retryStrategy, reconnectOnError });
    this.#clock = clock;
    this.#endHandshake = limitHandshake(this, clock);
    this.on("end", () => rejectUnanswered(this));
    tellUnneededPassword(this);
    this.on("error", (error: Error) => {
      if (WRONG_DATABASE.test(error.message)) dropConnection(this);
    });
  }

  /** Once for a socket: every command that a replica refuses asks for it again. */
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

type Said = (error?: Error | null) => void;

/** ioredis' own handler of such an answer writes to the console, and does nothing else. */
function tellUnneededPassword(redis: Redis): void {
  const auth = redis.auth as (credentials: unknown, said: Said) => unknown;
  const authenticate = (credentials: unknown, said: Said) =>
    auth.call(redis, credentials, (error) => {
      if (error && NEEDS_NO_PASSWORD.test(error.message)) redis.emit(UNNEEDED_PASSWORD);
      else said(error);
    });
  Object.assign(redis, { auth: authenticate });
}

const gathering = new WeakSet<object>();

/**
 * What is sent from now on until the event loop has been once around leaves together: a write of its own costs as much as all
 * else of a commit. A cluster's connections write by themselves.
 */
function gatherWrites({ status, stream }: Redis): void {
  if (status !== "ready" || !stream.writable || gathering.has(stream)) return;
  gathering.add(stream);
  stream.cork();
  const flush = setImmediate(() => {
    gathering.delete(stream);
    stream.uncork();
  });
  lastOf.flush = flush;
}

/** Drops the socket of a handshake that is not over in time; the answer calls that off for the handshake at hand. */
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
 * Destroys the socket of a connection that answers no more and has it connect anew. Does nothing while there is no
 * socket, or once it is dropped.
 */
export function dropConnection(redis: Redis): void {
  if (redis.status !== "ready" && redis.status !== "connect" && redis.status !== "connecting") return;
  if (redis.stream?.destroyed) return;
  redis.disconnect(true);
  redis.stream?.destroy();
}

/** ioredis rejects what waits when a connection ends, but what was under way when it was lost before would wait for ever. */
function rejectUnanswered(redis: Redis): void {
  const lost = LostCommands.safeParse(Reflect.get(redis, "prevCommandQueue")).data;
  for (let next = lost?.shift(); next !== undefined; next = lost?.shift()) {
    next.command.reject(new Error("Connection is closed."));
  }
}

/** What ioredis keeps of the commands that were under way when a connection was lost. */
const LostCommands = z.custom<{ shift(): { command: { reject(error: Error): void } } | undefined }>(
  (value) => typeof value === "object" && value !== null && "shift" in value,
);
