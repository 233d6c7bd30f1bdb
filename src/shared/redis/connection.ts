/**
 * Connections to Redis, one kind a role. The caller of {@link openRedis} owns the connection and closes it.
 *
 * - `producer`: fails at once when Redis is away, sends nothing twice by itself.
 * - `worker`: waits for Redis to come back; every command of ours may be sent again.
 * - `subscriber`: pub/sub only; resubscribes by itself.
 */
import { Redis, type RedisOptions } from "ioredis";
import { SubagentError } from "../errors.ts";
import type { Logger } from "../logger.ts";

/** A connection of ours. */
export type RedisClient = Redis;
/** What a connection is for. */
export type RedisRole = "producer" | "worker" | "subscriber";

const CONNECT_TIMEOUT_MS = 5_000;
const LONGEST_RETRY_MS = 1_000;
/** A closed connection whose other side does not answer is destroyed after this long. */
const FAREWELL_MS = 100;

const ROLE_OPTIONS: Record<RedisRole, RedisOptions> = {
  producer: { maxRetriesPerRequest: 0, enableOfflineQueue: false },
  worker: { maxRetriesPerRequest: null },
  // Without a ready check: its INFO behind a SUBSCRIBE is refused and the connection lost. Subscribing works while loading.
  subscriber: { maxRetriesPerRequest: null, autoResubscribe: true, enableReadyCheck: false },
};

/**
 * Opens a connection for `role`; it connects in the background and reconnects for ever.
 * `url`: `redis://[user:password@]host[:port][/db]`, `rediss://…` (TLS) or `unix:///path/to/redis.sock`.
 * Throws `invalid_config` on any other form.
 */
export function openRedis(url: string, role: RedisRole, logger?: Logger): RedisClient {
  const redis = new Redis({
    ...parseRedisUrl(url),
    ...ROLE_OPTIONS[role],
    connectionName: `subagent-queue-${role}`,
    connectTimeout: CONNECT_TIMEOUT_MS,
    disconnectTimeout: FAREWELL_MS,
    keepAlive: 5_000,
    retryStrategy: (times) => Math.min(50 * 2 ** Math.min(times, 10), LONGEST_RETRY_MS),
    reconnectOnError: (error) => (error.message.startsWith("READONLY") ? 2 : false),
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

/**
 * Resolves when commands are safe with the connection; rejects when it is closed for good. Before that some of them (a
 * SUBSCRIBE is one) go out during the handshake and, when that breaks, are forgotten: their promises never settle.
 */
export function whenReady(redis: RedisClient): Promise<void> {
  if (redis.status === "ready") return Promise.resolve();
  return new Promise((resolve, reject) => {
    const settle = (then: () => void) => () => {
      redis.off("ready", ready).off("end", ended);
      then();
    };
    const ready = settle(resolve);
    const ended = settle(() => reject(new SubagentError("closed", "The connection was closed.")));
    redis.on("ready", ready).on("end", ended);
  });
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
