/**
 * Connections to Redis, one kind per role, to one server (`server-connection.ts`) or to a cluster (`cluster.ts`). The caller
 * of {@link openRedis} owns the connection and closes it.
 *
 * - `producer`: fails at once if Redis is away, and re-sends nothing by itself.
 * - `worker`: waits for Redis to come back, and may re-send every command of ours.
 * - `asker`: waits as a worker does, but returns the refusal of a replica, or of a cluster that is down, as the answer: a
 *   command must end.
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
import {
  closeCluster,
  connectionProblem,
  NO_CLUSTER,
  openCluster,
  openClusterSubscriber,
} from "./cluster.ts";
import {
  dropConnection,
  NO_READY_CHECK,
  readyAnswerOf,
  ServerConnection,
  UNNEEDED_PASSWORD,
  WRONG_DATABASE,
} from "./server-connection.ts";

/** A connection of ours: to one server, or to all nodes of a cluster. */
export type RedisClient = Redis | Cluster;
/** A connection to one server. */
export type RedisConnection = Redis;
/** Purpose of a connection. */
export type RedisRole = "producer" | "worker" | "asker" | "subscriber";

const CONNECT_TIMEOUT_MS = 5_000;
/** Advice to the operator whose Redis user lacks rights. */
export const GIVE_RIGHTS = "give it the rights that docs/operations.md names";
/** Advice where {@link mayLackTls}. */
export const WITHOUT_TLS = "if that Redis has no TLS, write redis:// in place of rediss://";
/** Problems of a TLS handshake with a server that speaks none. */
const NO_HANDSHAKE = /ETIMEDOUT|ECONNRESET|before secure TLS connection|wrong version number/;
/** A closed connection whose other side does not answer is destroyed after this long. */
const FAREWELL_MS = 100;

const ROLE_OPTIONS: Record<RedisRole, RedisOptions> = {
  producer: { maxRetriesPerRequest: 0, enableOfflineQueue: false },
  worker: { maxRetriesPerRequest: null },
  asker: { maxRetriesPerRequest: null, reconnectOnError: null },
  // No automatic resubscribing: if the connection is lost in the middle of it, ioredis leaves an unhandled rejection. No
  // ready check: Redis refuses its INFO after a SUBSCRIBE, and the connection is lost. Subscribing works while it loads.
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
    const problem = connectionProblem(error);
    if (problem === reported) return;
    reported = problem;
    const advice = mayLackTls(url, problem) ? WITHOUT_TLS : undefined;
    logger?.warn({ role, problem, ...(advice && { advice }) }, "Redis connection failed; trying again");
  });
  redis.on("ready", () => {
    if (reported === "") return;
    // A subscriber is ready before Redis has answered its password: its next answer tells whether the problem is over.
    redis.ping().then(
      () => (reported = ""),
      () => {},
    );
  });
  redis.once(UNNEEDED_PASSWORD, () => {
    logger?.warn({ role }, "Redis asks for no password, though its address has one: is it open to everyone?");
  });
  redis.once(NO_READY_CHECK, () => {
    logger?.warn(
      { role },
      `Redis refuses its user INFO, so one that loads its data looks ready: ${GIVE_RIGHTS}`,
    );
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

/**
 * Returns whether a server without TLS may be why an address with TLS has this problem; without `problem`: why it is silent. Such a
 * server mostly waits for the rest of a command that it does not understand.
 */
export function mayLackTls(url: string, problem = "ETIMEDOUT"): boolean {
  return url.startsWith("rediss") && NO_HANDSHAKE.test(problem);
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

/** Maximum time of the first attempt to connect in which a caller waits for a refusal. */
const TRIED_MS = 2_000;

const REFUSAL = new RegExp(
  `\\b(?:WRONGPASS|NOAUTH)\\b|invalid password|${NO_CLUSTER}|${WRONG_DATABASE.source}`,
);

/**
 * Resolves when commands can be sent; waits without limit for a Redis that is away. Rejects with `invalid_config` if Redis
 * answers but refuses this password or database, or is no cluster (waiting does not help), and with `closed` once the
 * connection is closed.
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
      const refusal = refusalOf(error);
      if (refusal) end(refusal);
    };
    redis.on("ready", accepted).on("error", failed).on("end", closed);
    if (redis.status === "ready") accepted();
    if (redis.status === "end") closed();
  });
}

/**
 * Resolves when the first attempt to connect is over, also if it failed, and after {@link TRIED_MS} at the latest. Rejects as
 * {@link whenAccepted} does.
 */
export async function whenTried(redis: RedisClient, clock: Clock): Promise<void> {
  let timer: { cancel(): void } | undefined;
  const over = new Promise<void>((resolve) => {
    redis.once("close", () => resolve());
    timer = clock.timeout(TRIED_MS, resolve);
  });
  try {
    await Promise.race([whenAccepted(redis), over]);
  } finally {
    timer?.cancel();
  }
}

/**
 * Returns `invalid_config`, with the problem in its details, for an error by which Redis refuses a password or database, or
 * says that it is no cluster; else undefined.
 */
export function refusalOf(error: Error): SubagentError | undefined {
  const problem = connectionProblem(error);
  if (!REFUSAL.test(problem)) return undefined;
  const sentence = `Redis refuses this connection (${problem}): correct its address.`;
  return new SubagentError("invalid_config", sentence, { problem }, error);
}

/**
 * Closes a connection at once, without waiting for commands that Redis may never answer; they reject. Between two attempts
 * to connect there is no socket whose end would reject them, so it begins a last attempt and breaks it off.
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
 * Destroys the sockets of a connection that no longer answers, and reconnects it: unanswered commands reject, the next
 * command uses a new socket. Does nothing if there is no socket, or if it was dropped already.
 */
export function dropRedis(redis: RedisClient): void {
  if (redis instanceof Cluster) for (const node of redis.nodes()) dropConnection(node);
  else dropConnection(redis);
}

/** Returns true if a command is sent at once. A dropped or ended socket is still "ready" until its end is announced. */
export function canSend(redis: RedisClient): boolean {
  if (redis.status !== "ready") return false;
  return redis instanceof Cluster
    ? redis.nodes().some(({ stream }) => !stream?.destroyed)
    : redis.stream.writable;
}

/** Runs `send`; the commands that it sends at once leave in one packet, in their order. A cluster has no such order. */
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

/** Returns the number of the database of a connection; 0 for a cluster. */
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
 * Throws `invalid_config` if `redis`, a connection to one server, leads to a node of a cluster, which would serve only the
 * parents whose keys are there, or to a Sentinel, which has no keys. Waits for the connection as its role does.
 */
export async function refuseWrongServer(redis: RedisClient): Promise<void> {
  if (redis instanceof Cluster) return;
  // The check that made the connection ready has the answer: no trip is needed for it.
  const info = readyAnswerOf(redis) ?? (await readInfo(redis));
  if (/^(?:redis|server)_mode:sentinel/m.test(info)) throw new SubagentError("invalid_config", SENTINEL);
  if (/^cluster_enabled:1/m.test(info)) throw clusterNodeRefused();
}

async function readInfo(redis: Redis): Promise<string> {
  const sections = await Promise.all([redis.info("server"), redis.info("cluster")]);
  return sections.join("\n");
}

const SENTINEL =
  "The address of Redis (redisUrl, REDIS_URL) names a Sentinel, which keeps no data: write the address of its master, or a name or proxy that follows the master.";

/** Returns the error for a connection to one server that leads to a node of a cluster. */
export function clusterNodeRefused(): SubagentError {
  const sentence =
    "The address of Redis (redisUrl, REDIS_URL) names one node of a Redis Cluster: write redis+cluster://host:port,host:port with some of its nodes.";
  return new SubagentError("invalid_config", sentence);
}

// The servers behind a connection: each holds a part of the keys, and has its own settings.

/** Returns the one server, or every master of a cluster. */
export function serversOf(redis: Redis | Cluster): Redis[] {
  return redis instanceof Cluster ? redis.nodes("master") : [redis];
}
