/**
 * Connections to Redis, one kind a role. The caller of {@link openRedis} owns the connection and closes it.
 *
 * - `producer`: fails at once when Redis is away, sends nothing twice by itself.
 * - `worker`: waits for Redis to come back; every command of ours may be sent again.
 * - `subscriber`: pub/sub only; whoever listens subscribes at every `ready`.
 *
 * 1. A handshake that Redis leaves unanswered is given up, so a frozen or cut-off server cannot hold a connection.
 * 2. A connection whose database is refused never becomes ready: it would work on another one.
 * 3. One whose server has become a read-only replica looks for another server, once a second; what was refused is put
 *    again there.
 * 4. What waits for an answer when a connection is closed for good is rejected, all of it.
 * 5. All this holds for duplicates, which BullMQ makes for itself.
 */
import { Redis, type RedisOptions } from "ioredis";
import { type Clock, systemClock } from "../clock.ts";
import { SubagentError } from "../errors.ts";
import type { Logger } from "../logger.ts";

/** A connection of ours. */
export type RedisClient = Redis;
/** What a connection is for. */
export type RedisRole = "producer" | "worker" | "subscriber";

const CONNECT_TIMEOUT_MS = 5_000;
const HANDSHAKE_MS = 5_000;
const LONGEST_RETRY_MS = 1_000;
/** A closed connection whose other side does not answer is destroyed after this long. */
const FAREWELL_MS = 100;

const ROLE_OPTIONS: Record<RedisRole, RedisOptions> = {
  producer: { maxRetriesPerRequest: 0, enableOfflineQueue: false },
  worker: { maxRetriesPerRequest: null },
  // ioredis' own resubscribing leaves a rejection to nobody when the connection is lost again in the middle of it.
  // Without a ready check: its INFO behind a SUBSCRIBE is refused and the connection lost. Subscribing works while loading.
  subscriber: { maxRetriesPerRequest: null, autoResubscribe: false, enableReadyCheck: false },
};

/**
 * Opens a connection for `role`; it connects in the background and reconnects for ever.
 * `url`: `redis://[user:password@]host[:port][/db]`, `rediss://…` (TLS) or `unix:///path/to/redis.sock`.
 * Throws `invalid_config` on any other form.
 */
export function openRedis(
  url: string,
  role: RedisRole,
  logger?: Logger,
  clock: Clock = systemClock,
): RedisClient {
  const redis = new Connection(clock, {
    ...parseRedisUrl(url),
    ...ROLE_OPTIONS[role],
    connectionName: `subagent-queue-${role}`,
    connectTimeout: CONNECT_TIMEOUT_MS,
    disconnectTimeout: FAREWELL_MS,
    keepAlive: 5_000,
  });
  let reported = "";
  redis.on("error", (error: Error) => {
    if (error.message === reported) return;
    reported = error.message;
    logger?.warn({ role, problem: error.message || error.name }, "Redis connection failed; trying again");
  });
  redis.on("ready", () => {
    reported = "";
  });
  return redis;
}

class Connection extends Redis {
  readonly #clock: Clock;
  #handshake: { cancel(): void } | undefined;

  constructor(clock: Clock, options: RedisOptions) {
    let isReadOnly = false;
    const retryStrategy = (times: number) => {
      const delayMs = isReadOnly ? LONGEST_RETRY_MS : 50 * 2 ** Math.min(times, 10);
      isReadOnly = false;
      return Math.min(delayMs, LONGEST_RETRY_MS);
    };
    const reconnectOnError = (error: Error) => {
      if (!error.message.startsWith("READONLY")) return false;
      isReadOnly = true;
      return 2;
    };
    super({ ...options, retryStrategy, reconnectOnError });
    this.#clock = clock;
    const over = () => this.#handshake?.cancel();
    this.on("connect", () => {
      over();
      this.#handshake = clock.timeout(HANDSHAKE_MS, () => dropRedis(this));
    });
    this.on("ready", over);
    this.on("close", over);
    this.on("end", () => rejectUnanswered(this));
    this.on("error", (error: Error) => {
      if (WRONG_DATABASE.test(error.message)) dropRedis(this);
    });
  }

  /** Once for a socket: every command that a replica refuses asks for it again. */
  override disconnect(reconnect = false): void {
    if (!reconnect) this.#handshake?.cancel();
    if (!reconnect || !this.stream?.writableEnded) super.disconnect(reconnect);
  }

  override duplicate(override?: Partial<RedisOptions>): Redis {
    return new Connection(this.#clock, { ...this.options, ...override });
  }
}

/** ioredis rejects what waits when a connection ends, but what was under way when it was lost before would wait for ever. */
function rejectUnanswered(redis: Redis): void {
  const lost = Reflect.get(redis, "prevCommandQueue") as LostCommands | null | undefined;
  for (let next = lost?.shift(); next !== undefined; next = lost?.shift()) {
    next.command.reject(new Error("Connection is closed."));
  }
}

interface LostCommands {
  shift(): { command: { reject(error: Error): void } } | undefined;
}

const WRONG_DATABASE = /\bDB index\b|SELECT is not allowed/;
const REFUSAL = new RegExp(`\\b(?:WRONGPASS|NOAUTH)\\b|invalid password|${WRONG_DATABASE.source}`);

/**
 * Resolves when commands can be sent; waits for a Redis that is away as long as it takes. Rejects with `invalid_config`
 * when Redis is there and takes this password or database not, which waiting will not change, and with `closed` once
 * the connection is closed.
 */
export function whenAccepted(redis: RedisClient): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (error?: SubagentError) => {
      redis.off("ready", accepted).off("error", failed).off("end", closed);
      if (error) reject(error);
      else resolve();
    };
    const accepted = () => end();
    const closed = () => end(new SubagentError("closed", "The connection to Redis was closed."));
    const failed = (error: Error) => {
      if (REFUSAL.test(error.message)) end(refused(error));
    };
    redis.on("ready", accepted).on("error", failed).on("end", closed);
    if (redis.status === "ready") accepted();
    if (redis.status === "end") closed();
  });
}

function refused(error: Error): SubagentError {
  const sentence = `Redis refuses this connection (${error.message}): correct the user, password or database of its address.`;
  return new SubagentError("invalid_config", sentence, {}, error);
}

/**
 * Closes a connection: at once, without waiting for commands that Redis may never answer; they reject. Between two
 * attempts to connect there is no socket whose end would reject them, so a last attempt is begun and broken off.
 */
export function closeRedis(redis: RedisClient): void {
  if (redis.status === "reconnecting") redis.connect().catch(() => {});
  redis.disconnect();
}

/**
 * Destroys the socket of a connection that answers no more and has it connect anew: what was sent and not answered
 * rejects, the next command goes over the new connection. Does nothing while there is no socket, or once it is dropped.
 */
export function dropRedis(redis: RedisClient): void {
  if (redis.status !== "ready" && redis.status !== "connect" && redis.status !== "connecting") return;
  if (redis.stream?.destroyed) return;
  redis.disconnect(true);
  redis.stream?.destroy();
}

/** The connection options a Redis URL stands for. Throws `invalid_config` with the expected forms. */
export function parseRedisUrl(url: string): RedisOptions {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw wrongUrl(url);
  }
  if (parsed.protocol === "unix:" && parsed.pathname.length > 1)
    return { path: decodeURIComponent(parsed.pathname) };
  if ((parsed.protocol !== "redis:" && parsed.protocol !== "rediss:") || parsed.hostname === "")
    throw wrongUrl(url);
  const db = parsed.pathname.slice(1);
  if (!/^\d*$/.test(db)) throw wrongUrl(url);
  return {
    host: parsed.hostname.replace(/^\[|\]$/g, ""),
    port: parsed.port === "" ? 6379 : Number(parsed.port),
    ...(parsed.username && { username: decodeURIComponent(parsed.username) }),
    ...(parsed.password && { password: decodeURIComponent(parsed.password) }),
    ...(db && { db: Number(db) }),
    ...(parsed.protocol === "rediss:" && { tls: {} }),
  };
}

function wrongUrl(url: string): SubagentError {
  const shown = url.replace(/\/\/[^@/]*@/, "//***@");
  return new SubagentError(
    "invalid_config",
    `REDIS_URL "${shown}" is not a Redis address: write redis://host:port, rediss://host:port or unix:///path/to/redis.sock.`,
  );
}
