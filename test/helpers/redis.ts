/**
 * Redis for tests: unique prefixes on the server that the whole run shares, and private servers.
 * A test that stops, starves or reconfigures Redis must use `startPrivateRedis()`.
 */
import { randomBytes } from "node:crypto";
import { Cluster, type Redis } from "ioredis";
import { inject } from "vitest";
import type { RedisClient } from "../../src/shared/redis/connection/connection.ts";
import { closeAtEnd } from "./cleanup.ts";
import { type RedisCluster, startCluster } from "./cluster.ts";
import { FSYNC_NEVER, type RedisServer, startRedisServer } from "./redis-server.ts";

export { FSYNC_NEVER } from "./redis-server.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** `redis://127.0.0.1:PORT` of the shared server, or the URL of the shared cluster in the project `on-cluster`. */
    redisUrl: string;
    /** Path of the shared server's unix socket; absent for a cluster and for the embedded server, which has none. */
    redisSocket?: string;
  }
}

/** Returns the URL of the server shared by all test files. Never FLUSHALL, CONFIG SET or kill it; use `uniquePrefix()`. */
export function redisUrl(): string {
  return inject("redisUrl");
}

/** Returns the unix socket of the shared server; the same rules hold. Throws if the server has none: use `redisUrl()`. */
export function redisSocket(): string {
  const path = inject("redisSocket");
  if (path === undefined) throw new Error("the embedded server has no unix socket; use redisUrl()");
  return path;
}

/** Returns a unique name for key prefixes, tenants and queue names: `t` and 12 hex digits. */
export function uniquePrefix(): string {
  return `t${randomBytes(6).toString("hex")}`;
}

/** Returns the connections to all servers of a client. */
export function serversOf(redis: RedisClient): Redis[] {
  return redis instanceof Cluster ? redis.nodes() : [redis];
}

/** Runs `work` on each server of a client, after the client knows all nodes. */
export async function onEachServer(
  redis: RedisClient,
  work: (server: Redis) => Promise<unknown>,
): Promise<void> {
  await redis.exists("any");
  await Promise.all(serversOf(redis).map(work));
}

const mastersOf = (redis: RedisClient) => (redis instanceof Cluster ? redis.nodes("master") : [redis]);

/** Returns the URL of the server, or of all masters of a cluster. */
export function masterUrls(redis: RedisClient): string[] {
  return mastersOf(redis).map(({ options: { host, port } }) => `redis://${host}:${port}`);
}

/**
 * Returns the keys that match `pattern` on the server, or on all masters of a cluster. Asks in small steps: the shared server has
 * the keys of all tests, and a single KEYS would keep it from the others for a tenth of a second.
 */
export async function keysLike(redis: RedisClient, pattern: string): Promise<string[]> {
  // The cursor of the embedded server is a position: where a key goes meanwhile, another one is passed over.
  if (!(redis instanceof Cluster) && inject("redisSocket") === undefined) return redis.keys(pattern);
  const found = new Set<string>();
  for (const server of mastersOf(redis)) {
    for await (const names of server.scanStream({ match: pattern, count: 1_000 }))
      for (const name of names) found.add(name);
  }
  return [...found];
}

/** Starts a private server; the end of the test (or file) stops and removes it. */
export async function startPrivateRedis(
  options: { arguments?: readonly string[] } = {},
): Promise<RedisServer> {
  const server = await startRedisServer(options.arguments ?? []);
  closeAtEnd(() => server.stop());
  return server;
}

/** Starts a private cluster whose nodes may be killed; the end of the test (or file) stops and removes it. */
export async function startPrivateCluster(): Promise<RedisCluster> {
  const cluster = await startCluster(FSYNC_NEVER);
  closeAtEnd(() => cluster.stop());
  return cluster;
}
