/**
 * Connections to Redis, one kind a role, to one server (`server-connection.ts`) or to a cluster (`cluster.ts`). The caller
 * of {@link openRedis} owns the connection and closes it.
 *
 * - `producer`: fails at once when Redis is away, sends nothing twice by itself.
 * - `worker`: waits for Redis to come back; every command of ours may be sent again.
 * - `asker`: waits as a worker does, and takes a replica's refusal for its answer: a command must end.
 * - `subscriber`: pub/sub only; its listener subscribes at every `ready`.
 */
import { readFileSync } from "node:fs";
import { createSecureContext, type SecureContext } from "node:tls";
import { Cluster, type Redis, type RedisOptions } from "ioredis";
import { type Clock, systemClock } from "../../clock.ts";
import { messageOf, SubagentError } from "../../errors.ts";
import type { Logger } from "../../logger.ts";
import { parseRedisUrl, type TlsFiles } from "../../redis-url.ts";
import { keepSecret } from "../../secrets.ts";
import { closeCluster, NO_CLUSTER, openCluster, openClusterSubscriber, problemOf } from "./cluster.ts";
import { dropConnection, ServerConnection, UNNEEDED_PASSWORD, WRONG_DATABASE } from "./server-connection.ts";

/** A connection of ours: to one server, or to all nodes of a cluster. */
export type RedisClient = Redis | Cluster;
/** A connection to one server. */
export type RedisConnection = Redis;
/** What a connection is for. */
export type RedisRole = "producer" | "worker" | "asker" | "subscriber";

const CONNECT_TIMEOUT_MS = 5_000;
/** A closed connection whose other side does not answer is destroyed after this long. */
const FAREWELL_MS = 100;

const ROLE_OPTIONS: Record<RedisRole, RedisOptions> = {
  producer: { maxRetriesPerRequest: 0, enableOfflineQueue: false },
  worker: { maxRetriesPerRequest: null },
  asker: { maxRetriesPerRequest: null, reconnectOnError: null },
  // ioredis' own resubscribing leaves an unhandled rejection when the connection is lost again in the middle of it.
  // Without a ready check: its INFO behind a SUBSCRIBE is refused and the connection lost. Subscribing works while loading.
  subscriber: { maxRetriesPerRequest: null, autoResubscribe: false, enableReadyCheck: false },
};

/**
 * Opens a connection for `role`; it connects in the background and reconnects for ever. `url` has one of the forms of
 * {@link parseRedisUrl}, which throws `invalid_config` on any other; also where the files of TLS cannot be used. They are read once.
 */
export function openRedis(
  url: string,
  role: RedisRole,
  logger?: Logger,
  clock: Clock = systemClock,
): RedisClient {
  const redis = open(url, role, clock);
  let reported = "";
  redis.on("error", (error: Error) => {
    const problem = problemOf(error);
    if (problem === reported) return;
    reported = problem;
    logger?.warn({ role, problem }, "Redis connection failed; trying again");
  });
  redis.on("ready", () => {
    reported = "";
  });
  redis.once(UNNEEDED_PASSWORD, () => {
    logger?.warn({ role }, "Redis asks for no password, though its address has one: is it open to everyone?");
  });
  return redis;
}

function open(url: string, role: RedisRole, clock: Clock): RedisClient {
  const { nodes, tls, ...address } = parseRedisUrl(url);
  keepSecret(address.password);
  const secureContext = tls && Object.keys(tls).length > 0 ? secureContextOf(tls) : undefined;
  const options: RedisOptions = {
    ...address,
    ...(tls && { tls: { ...(secureContext && { secureContext }) } }),
    connectionName: `subagent-queue-${role}`,
    connectTimeout: CONNECT_TIMEOUT_MS,
    disconnectTimeout: FAREWELL_MS,
    keepAlive: 5_000,
  };
  if (nodes && role !== "subscriber") return openCluster(nodes, role, options, clock);
  const ofRole = { ...options, ...ROLE_OPTIONS[role] };
  return nodes ? openClusterSubscriber(nodes, ofRole, clock) : new ServerConnection(clock, ofRole);
}

function secureContextOf({ ca, cert, key }: TlsFiles): SecureContext {
  const read = (path: string | undefined) => (path === undefined ? undefined : readFileSync(path, "utf8"));
  try {
    return createSecureContext({ ca: read(ca), cert: read(cert), key: read(key) });
  } catch (error) {
    const sentence = `The files behind the ? in the address of Redis cannot be used (${messageOf(error)}): name PEM files that this user may read, and a key that fits its certificate.`;
    throw new SubagentError("invalid_config", sentence, {}, error);
  }
}

const REFUSAL = new RegExp(
  `\\b(?:WRONGPASS|NOAUTH)\\b|invalid password|${NO_CLUSTER}|${WRONG_DATABASE.source}`,
);

/**
 * Resolves when commands can be sent; waits for a Redis that is away as long as it takes. Rejects with `invalid_config`
 * when Redis answers but refuses this password or database, or is no cluster (waiting does not help), and with `closed`
 * once the connection is closed.
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
      const problem = problemOf(error);
      if (REFUSAL.test(problem)) end(refused(problem, error));
    };
    redis.on("ready", accepted).on("error", failed).on("end", closed);
    if (redis.status === "ready") accepted();
    if (redis.status === "end") closed();
  });
}

function refused(problem: string, error: Error): SubagentError {
  const sentence = `Redis refuses this connection (${problem}): correct its address.`;
  return new SubagentError("invalid_config", sentence, {}, error);
}

/**
 * Closes a connection: at once, without waiting for commands that Redis may never answer; they reject. Between two
 * attempts to connect there is no socket whose end would reject them, so a last attempt is begun and broken off.
 */
export function closeRedis(redis: RedisClient): void {
  if (redis instanceof Cluster) {
    closeCluster(redis);
    return;
  }
  if (redis.status === "reconnecting") redis.connect().catch(() => {});
  redis.disconnect();
}

/**
 * Destroys the sockets of a connection that answers no more and has it connect anew: what was sent and not answered
 * rejects, the next command goes over a new socket. Does nothing while there is none, or once it is dropped.
 */
export function dropRedis(redis: RedisClient): void {
  if (redis instanceof Cluster) for (const node of redis.nodes()) dropConnection(node);
  else dropConnection(redis);
}

/** Whether a command goes out at once. A socket that was dropped or has ended is still "ready" until its end is announced. */
export function canSend(redis: RedisClient): boolean {
  if (redis.status !== "ready") return false;
  return redis instanceof Cluster
    ? redis.nodes().some(({ stream }) => !stream?.destroyed)
    : redis.stream.writable;
}

/** Runs `send`: the commands that it sends at once leave in one packet, in their order. A cluster has no such order. */
export function inOneFlight<T>(redis: RedisClient, send: () => T): T {
  if (redis instanceof Cluster || !canSend(redis)) return send();
  const { stream } = redis;
  stream.cork();
  try {
    return send();
  } finally {
    stream.uncork();
  }
}

/** The number of the database that a connection works on; a cluster has no other than 0. */
export function databaseOf(redis: RedisClient): number {
  return redis instanceof Cluster ? 0 : (redis.options.db ?? 0);
}

/** Calls `listener` with every connection to a single server that `redis` consists of, now and later. */
export function onConnection(redis: RedisClient, listener: (connection: RedisConnection) => void): void {
  if (redis instanceof Cluster) {
    for (const node of redis.nodes()) listener(node);
    redis.on("+node", listener);
  } else listener(redis);
}

/**
 * Throws `invalid_config` when `redis`, a connection to one server, leads to a node of a cluster: it would serve only the
 * parents whose keys lie there. Waits for the connection as its role does.
 */
export async function refuseClusterNode(redis: RedisClient): Promise<void> {
  if (redis instanceof Cluster || !/^cluster_enabled:1/m.test(await redis.info("cluster"))) return;
  throw clusterNodeRefused();
}

/** What to say when a connection to one server turns out to lead to a node of a cluster. */
export function clusterNodeRefused(): SubagentError {
  const sentence =
    "The address of Redis (redisUrl, REDIS_URL) names one node of a Redis Cluster: write redis+cluster://host:port,host:port with some of its nodes.";
  return new SubagentError("invalid_config", sentence);
}

// The servers behind a connection: each holds a part of the keys, and has settings of its own.

/** The one server, or every master of a cluster. */
export function serversOf(redis: Redis | Cluster): Redis[] {
  return redis instanceof Cluster ? redis.nodes("master") : [redis];
}
